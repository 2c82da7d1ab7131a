// SPDX-License-Identifier: Apache-2.0
/*
 * From operations and proofs to spans.
 *
 * A process's proofs are taken in the order in which they returned, up to the first that has not
 * settled. Each closes what was queued before it and that no earlier one has closed.
 */
#include <stdlib.h>

#include "spans.h"

#define ITEMS_MAX 262144
#define MIXES_MAX 262144

/* The number of its tenant's mix of a queue's first operations and of what was folded. */
static int32_t mix_of(struct spans *spans, struct queue *queue, uint32_t count, struct sum *sum)
{
	int32_t known;
	uint32_t all;
	struct op *ops = ops_of(queue, &all);

	/* Whoever may see one tenant's mixes only must find all of them. */
	for (int half = 0; half < 2; half++)
		sum->salt[half] += scramble(spans->seed[half], queue->cgroup_id);
	known = mix_find(spans, sum);
	if (known >= 0)
		return known;
	spans->scratch.used = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct count one = {ops[i].item, ops[i].weight};

		if (buffer_add(&spans->scratch, &one, sizeof(one)))
			return -1;
	}
	if (buffer_add(&spans->scratch, queue->folded_items.bytes, queue->folded_items.used))
		return -1;
	return mix_make(spans, sum, &spans->scratch);
}

/* Without operations it goes on with what an older span has of them. */
static struct span span_of(const struct queue *queue, const struct sum *sum)
{
	int64_t first_ns = sum->ops && !queue->carried ? sum->first_ns : queue->before_ns;

	return (struct span){
		.start_ns = queue->has_before && queue->before_ns > first_ns ?
			    queue->before_ns : first_ns,
		.end_ns = sum->ops ? sum->last_ns : queue->before_ns,
		.queued_ns = first_ns,
		.stream = queue->stream->number,
		.cgroup_id = queue->cgroup_id,
		.context = sum->ops ? sum->context : queue->carried_context,
		.has_context = sum->ops ? sum->has_context : queue->carried_has_context,
		.launches = sum->launches,
		.copies = sum->copies,
		.copied_bytes = sum->copied_bytes,
		.collectives = sum->collectives,
		.shed = sum->shed,
		.extent = (double)sum->extent / EXTENT_SCALE,
		.pid = queue->process->pid,
		.gpu = sum->ops ? sum->gpu : queue->carried_gpu,
		.mix = -1,
		.non_blocking = queue->stream->non_blocking,
	};
}

/* What nothing has proven may go on: its next span begins where this one ends. */
static void carry(struct queue *queue, const struct sum *sum, const struct span *span)
{
	queue->carried = 1;
	if (sum->ops)
		queue->carried_ns = sum->last_ns;
	queue->carried_context = span->context;
	queue->carried_has_context = span->has_context;
	queue->carried_gpu = span->gpu;
}

static void note_last(struct proof *proof, int64_t queued_ns)
{
	if (queued_ns > proof->last_ns)
		proof->last_ns = queued_ns;
}

/* A queue's first operations; without a proof, up to a time. */
static int close_span(struct spans *spans, struct queue *queue, uint32_t count,
		      struct proof *proof, uint8_t closed_by, int64_t end_ns)
{
	struct sum sum = {0};
	struct span span;
	uint32_t all;
	struct op *ops = ops_of(queue, &all);

	for (uint32_t i = 0; i < count; i++) {
		sum_add(spans, &sum, &ops[i]);
		if (proof)
			note_last(proof, proves_itself(proof, &ops[i]) ? ops[i].began_ns :
				  op_end(&ops[i]));
	}
	if (proof && queue->folded.ops)
		note_last(proof, queue->folded.last_ns);
	queue_merge(spans, queue);
	sum_join(&sum, &queue->folded);
	span = span_of(queue, &sum);
	span.closed_by = closed_by;
	if (end_ns > span.end_ns)
		span.end_ns = end_ns;
	if (proof) {
		span.proof_ns = proof->began_ns;
		span.waited_ns = proof->took_ns;
		span.api = proof->api;
		span.done_ns = proof->not_ready ? 0 : proof->seen_ns;
		if (queue->carried)
			note_last(proof, queue->carried_ns);
	}
	if (span.end_ns < span.start_ns)
		span.end_ns = span.start_ns;
	queue->before_ns = span.end_ns;
	queue->has_before = 1;
	if (sum.ops && !sum.mixless) {
		span.mix = mix_of(spans, queue, count, &sum);
		if (span.mix < 0)
			return -1;
	}
	if (closed_by == CLOSED_BY_AGE)
		carry(queue, &sum, &span);
	else
		queue->carried = 0;
	queue_drop(spans, queue, count);
	memset(&queue->folded, 0, sizeof(queue->folded));
	queue_forget_kinds(spans, queue);
	queue->since_ns = spans->now_ns;
	return buffer_add(&spans->closed, &span, sizeof(span)) ||
	       buffer_add(&spans->provers, &proof, sizeof(proof));
}

static int op_order(const void *one, const void *other)
{
	int64_t a = op_end(one), b = op_end(other);

	return a < b ? -1 : a > b;
}

static int pending(const struct queue *queue)
{
	uint32_t count;

	ops_of(queue, &count);
	return count || queue->folded.ops || queue->carried;
}

/* The first of what is pending, or what stands for it. */
static struct op first_pending(const struct queue *queue)
{
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	if (queue->carried)
		return (struct op){.began_ns = queue->carried_ns};
	return queue->folded.ops ? (struct op){.began_ns = queue->folded.last_ns} : ops[0];
}

static struct proof *sooner(struct proof *one, struct proof *other)
{
	if (!one || !other)
		return one ? one : other;
	return proof_order(one, other) <= 0 ? one : other;
}

static uint32_t queued_by(const struct queue *queue, int64_t until_ns)
{
	uint32_t count, low = 0;
	struct op *ops = ops_of(queue, &count);

	if (count && op_end(&ops[count - 1]) <= until_ns)
		return count;
	while (low < count) {
		uint32_t middle = low + (count - low) / 2;

		if (op_end(&ops[middle]) <= until_ns)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

/* What a proof closes: what was queued by its cover, and the call that it is itself. */
static uint32_t proven(struct queue *queue, const struct proof *proof)
{
	uint32_t all, count = queued_by(queue, proof->cover_ns), at;
	struct op *ops = ops_of(queue, &all), itself;

	at = queued_by(queue, proof_end(proof));
	while (at > count && op_end(&ops[at - 1]) == proof_end(proof)) {
		if (!proves_itself(proof, &ops[--at]))
			continue;
		itself = ops[at];
		memmove(&ops[count + 1], &ops[count], (at - count) * sizeof(*ops));
		ops[count] = itself;
		return count + 1;
	}
	return count;
}

static int earlier_order(const void *one, const void *other)
{
	const struct earlier *a = one, *b = other;

	if (a->context != b->context)
		return a->context < b->context ? -1 : 1;
	return a->queued_ns < b->queued_ns ? -1 : a->queued_ns > b->queued_ns;
}

/* Until when a copy waits for what was queued before it on blocking streams. */
static int64_t waits_until(const struct spans *spans, const struct context *context,
			   int64_t queued_ns)
{
	const struct earlier *earlier = (struct earlier *)spans->earlier.bytes;
	const struct earlier wanted = {context, queued_ns, 0};
	size_t low = 0, high = spans->earlier.used / sizeof(*earlier);

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (earlier_order(&earlier[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && earlier[low - 1].context == context ? earlier[low - 1].end_ns : INT64_MIN;
}

/* When the device was done, if this call proves it; a copy may have had to wait for its turn. */
static int64_t end_of(const struct spans *spans, const struct queue *queue,
		      const struct proof *proof)
{
	int64_t end_ns = proof_end(proof), turn_ns;

	if (!proof->itself)
		return end_ns;
	turn_ns = waits_until(spans, queue->stream->context, proof->cover_ns);
	if (turn_ns > end_ns)
		end_ns = turn_ns;
	if (queue->has_before && queue->before_ns > end_ns)
		end_ns = queue->before_ns;
	return end_ns + proof->margin_ns;
}

/* The next proof of what is pending: of its stream, or of all streams of its context. */
static struct proof *next_proof(const struct spans *spans, const struct queue *queue, int64_t limit)
{
	const struct stream *stream = queue->stream;
	const struct op first = first_pending(queue);
	struct proof *own, *all = proofs_first(&stream->context->proofs, &first, limit);

	if (stream->blocking)
		all = sooner(all, proofs_first(&stream->context->blocking_proofs, &first, limit));
	if (limit > stream->kept_ns)
		limit = stream->kept_ns;
	own = proofs_first(&stream->proofs, &first, limit);
	if (own && all && own->itself)
		return end_of(spans, queue, own) <= proof_end(all) ? own : all;
	return sooner(own, all);
}

static int close_queue(struct spans *spans, struct queue *queue, int64_t limit)
{
	struct proof *proof;

	if (queue->unordered) {
		queue_tidy(queue);
		sort(&queue->ops, sizeof(struct op), op_order);
		queue->unordered = 0;
	}
	while (pending(queue) && (proof = next_proof(spans, queue, limit))) {
		uint32_t count = proven(queue, proof);

		if (close_span(spans, queue, count, proof, CLOSED_BY_PROOF,
			       end_of(spans, queue, proof)))
			return -1;
	}
	queue_tidy(queue);
	return 0;
}

/* Spans that were closed since, and have not been looked at. */
static struct span *closed_since(const struct spans *spans, size_t first, uint32_t *count)
{
	*count = (spans->closed.used - first) / sizeof(struct span);
	return (struct span *)(spans->closed.bytes + first);
}

/* What nothing has proven done: of all queues, or of those that are held for too long. */
static int give_up(struct spans *spans, struct process *process, uint8_t closed_by, int64_t end_ns)
{
	size_t first = spans->closed.used;
	int64_t last_stream = 0;
	struct span *given_up;
	uint32_t given;

	process->unproven = 0;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		uint32_t count;

		ops_of(queue, &count);
		if (!pending(queue) || (closed_by == CLOSED_BY_AGE &&
					spans->now_ns - queue->since_ns < spans->hold_ns))
			continue;
		if (close_span(spans, queue, count, NULL, closed_by, end_ns))
			return -1;
		queue_tidy(queue);
		if (!process->unproven || last_stream != queue->stream->number)
			process->unproven++;
		last_stream = queue->stream->number;
	}
	spans->provers.used = 0;
	given_up = closed_since(spans, first, &given);
	for (uint32_t i = 0; i < given; i++)
		given_up[i].streams = process->unproven;
	return 0;
}

/* A proof that closed a span of a stream. */
struct closing {
	struct proof *proof;
	int64_t stream;
};

static int closing_order(const void *one, const void *other)
{
	const struct closing *a = one, *b = other;

	if (a->proof != b->proof)
		return a->proof < b->proof ? -1 : 1;
	return a->stream < b->stream ? -1 : a->stream > b->stream;
}

/* A stream counts once, though each cgroup of its process, and its small copies, have queues. */
static int count_streams(struct spans *spans, size_t first)
{
	struct proof **provers = (struct proof **)spans->provers.bytes;
	struct closing *closings;
	uint32_t count;
	struct span *closed = closed_since(spans, first, &count);

	spans->scratch.used = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct closing one = {provers[i], closed[i].stream};

		if (buffer_add(&spans->scratch, &one, sizeof(one)))
			return -1;
	}
	sort(&spans->scratch, sizeof(*closings), closing_order);
	closings = (struct closing *)spans->scratch.bytes;
	for (uint32_t i = 0; i < count; i++)
		if (!i || closing_order(&closings[i - 1], &closings[i]))
			closings[i].proof->closed++;
	return 0;
}

/* What a proof says is known once it has closed spans of all its streams. */
static int tell_proofs(struct spans *spans, size_t first)
{
	struct proof **provers = (struct proof **)spans->provers.bytes;
	uint32_t count;
	struct span *closed = closed_since(spans, first, &count);

	if (count_streams(spans, first))
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		const struct proof *proof = provers[i];
		int64_t until_ns = proof->seen_ns - proof->delay_ns;

		closed[i].streams = proof->closed;
		if (!proof->seen_ns || until_ns - proof->last_ns <= proof->margin_ns)
			continue;
		closed[i].certain_from_ns = proof->last_ns;
		closed[i].certain_until_ns = until_ns;
	}
	spans->provers.used = 0;
	return 0;
}

/*
 * Since when a queue has what is not proven. A small copy waits for it from then on: a call queues
 * its work some time between its begin and its return.
 */
static int64_t pending_since(const struct queue *queue)
{
	int64_t since_ns = queue->carried ? queue->carried_ns : INT64_MAX;
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	if (queue->folded.ops && queue->folded.first_ns < since_ns)
		since_ns = queue->folded.first_ns;
	for (uint32_t i = 0; i < count; i++)
		if (ops[i].began_ns < since_ns)
			since_ns = ops[i].began_ns;
	return since_ns;
}

/* What was proven of the streams that small copies wait for, and since when they have more. */
static int note_earlier(struct spans *spans, struct process *process, size_t first)
{
	const struct proof **provers = (const struct proof **)spans->provers.bytes;
	struct earlier *earlier;
	uint32_t count;
	struct span *closed = closed_since(spans, first, &count);

	spans->earlier.used = 0;
	for (struct queue *queue = process->queues; queue; queue = queue->next)
		queue->stream->context->pending_ns = INT64_MAX;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		struct context *context = queue->stream->context;
		int64_t since_ns;

		if (queue->stream->kind != STREAM_PLAIN || queue->stream->non_blocking)
			continue;
		since_ns = pending_since(queue);
		if (since_ns < context->pending_ns)
			context->pending_ns = since_ns;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = closed[i].has_context ? closed[i].context : 0;
		struct earlier one = {context_find(spans, process, number), closed[i].queued_ns,
				      closed[i].end_ns};

		if (one.context && !closed[i].non_blocking && provers[i] &&
		    buffer_add(&spans->earlier, &one, sizeof(one)))
			return -1;
	}
	sort(&spans->earlier, sizeof(*earlier), earlier_order);
	earlier = (struct earlier *)spans->earlier.bytes;
	for (size_t i = 1; i < spans->earlier.used / sizeof(*earlier); i++)
		if (earlier[i].context == earlier[i - 1].context &&
		    earlier[i].end_ns < earlier[i - 1].end_ns)
			earlier[i].end_ns = earlier[i - 1].end_ns;
	return 0;
}

/* Small copies, once all other streams are looked at: some wait for what is not proven yet. */
static int close_copies(struct spans *spans, struct process *process, size_t first, int64_t limit)
{
	int any = 0;

	for (struct queue *queue = process->queues; queue; queue = queue->next)
		any |= queue->stream->kind == STREAM_COPIES && pending(queue);
	if (!any)
		return 0;
	if (note_earlier(spans, process, first))
		return -1;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		struct stream *stream = queue->stream;
		const struct op after = {.began_ns = stream->context->pending_ns};
		struct proof *proof;

		if (stream->kind != STREAM_COPIES)
			continue;
		/* The first copy that returned after what is not proven began, and all that follow. */
		proof = proofs_first(&stream->proofs, &after, INT64_MAX);
		stream->kept_ns = proof ? proof_end(proof) : INT64_MAX;
		if (close_queue(spans, queue, limit))
			return -1;
	}
	return 0;
}

/* When the first of these returned that has not settled. */
static int64_t sort_some(const struct spans *spans, struct buffer *proofs, int at_once,
			 int64_t limit)
{
	proofs_sort(proofs);
	return at_once ? limit : proofs_unsettled(spans, proofs, limit);
}

static int64_t sort_proofs(struct spans *spans, struct process *process, int at_once)
{
	int64_t limit = INT64_MAX;

	spans->visit++;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		struct context *context = queue->stream->context;

		if (queue == queue->stream->first)
			limit = sort_some(spans, &queue->stream->proofs, at_once, limit);
		if (context->visit == spans->visit)
			continue;
		context->visit = spans->visit;
		limit = sort_some(spans, &context->proofs, at_once, limit);
		limit = sort_some(spans, &context->blocking_proofs, at_once, limit);
	}
	return limit;
}

static void forget_proofs(struct spans *spans, struct process *process, int64_t limit, int at_once)
{
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		struct stream *stream = queue->stream;

		proofs_forget(spans, process, &stream->context->proofs, limit);
		proofs_forget(spans, process, &stream->context->blocking_proofs, limit);
		proofs_forget(spans, process, &stream->proofs,
			      !at_once && stream->kept_ns < limit ? stream->kept_ns : limit);
		stream->kept_ns = INT64_MAX;
	}
}

int process_close(struct spans *spans, struct process *process, int at_once)
{
	size_t first = spans->closed.used;
	int64_t limit = sort_proofs(spans, process, at_once);

	for (struct queue *queue = process->queues; queue; queue = queue->next)
		if (queue->stream->kind == STREAM_PLAIN && close_queue(spans, queue, limit))
			return -1;
	if (close_copies(spans, process, first, limit) || tell_proofs(spans, first))
		return -1;
	forget_proofs(spans, process, limit, at_once);
	return 0;
}

/* What open spans are certain to cover: those that no proof has divided that is to settle. */
static int tell_open(struct spans *spans, const struct process *process)
{
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		const struct stream *stream = queue->stream;
		uint32_t count;
		struct op *ops = ops_of(queue, &count);
		struct sum sum = queue->folded;
		struct span span;

		if (!pending(queue) || stream->proofs.used || stream->context->proofs.used ||
		    stream->context->blocking_proofs.used)
			continue;
		if (count) {
			sum_add(spans, &sum, &ops[0]);
			sum_add(spans, &sum, &ops[count - 1]);
		}
		span = span_of(queue, &sum);
		if (span.end_ns > span.start_ns && buffer_add(&spans->open, &span, sizeof(span)))
			return -1;
	}
	return 0;
}

/* Queues that are idle and remember nothing that matters. */
static void forget_queues(struct spans *spans, struct process *process)
{
	struct queue **place = &process->queues;

	while (*place) {
		struct queue *queue = *place;

		if (pending(queue) || queue->stream->proofs.used ||
		    spans->now_ns - queue->since_ns < spans->hold_ns) {
			place = &queue->next;
			continue;
		}
		*place = queue->next;
		queue_free(spans, queue);
	}
}

/* Until when what nothing proved may have lasted: no recording says so of an older one. */
static int64_t at_most(const struct spans *spans, const struct process *process, int64_t end_ns)
{
	return !process->generation && end_ns > spans->boundary_ns ? spans->boundary_ns : end_ns;
}

static int visit(struct spans *spans, struct process *process, int stopping)
{
	int64_t now_ns = at_most(spans, process, spans->utc_ns);
	int gone = process->gone_ns && spans->now_ns - process->gone_ns >= spans->settle_ns;

	if (process_close(spans, process, stopping || gone))
		return -1;
	if (process->gone_ns && (stopping || gone)) {
		if (give_up(spans, process, CLOSED_BY_EXIT,
			    at_most(spans, process, process->ended_ns)))
			return -1;
	} else if (stopping && give_up(spans, process, CLOSED_BY_STOP, now_ns)) {
		return -1;
	}
	if (stopping || gone) {
		process_free(spans, process);
		return 0;
	}
	if (give_up(spans, process, CLOSED_BY_AGE, now_ns) || tell_open(spans, process))
		return -1;
	forget_queues(spans, process);
	if (!process->queues && spans->now_ns - process->used_ns >= spans->hold_ns)
		process_free(spans, process);
	return 0;
}

int spans_close(struct spans *spans, int stopping)
{
	spans->open.used = 0;
	for (uint32_t i = 0; i < spans->processes.size; i++) {
		for (struct node *node = spans->processes.buckets[i], *next; node; node = next) {
			next = node->next;
			if (visit(spans, (struct process *)node, stopping))
				return -1;
		}
	}
	return 0;
}

int spans_crowded(const struct spans *spans)
{
	return spans->nitems > ITEMS_MAX || spans->mixes.count > MIXES_MAX;
}

void spans_free(struct spans *spans)
{
	struct buffer *buffers[] = {&spans->closed,    &spans->open,	&spans->mix_sizes,
				    &spans->mix_items, &spans->scratch, &spans->provers,
				    &spans->earlier};

	for (uint32_t i = 0; i < spans->processes.size; i++)
		while (spans->processes.buckets[i])
			process_free(spans, (struct process *)spans->processes.buckets[i]);
	tenants_free(spans);
	items_free(spans);
	seconds_free(spans);
	table_free(&spans->processes);
	table_free(&spans->streams);
	table_free(&spans->contexts);
	table_free(&spans->queues);
	for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
		free(buffers[i]->bytes);
}
