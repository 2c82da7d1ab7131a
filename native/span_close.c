// SPDX-License-Identifier: Apache-2.0
/*
 * From operations and proofs to spans.
 *
 * A process's proofs are taken in the order in which they began, up to the first that has not
 * settled. Each closes the operations that began before it and that no earlier one has closed.
 */
#include <stdlib.h>

#include "spans.h"

/* A wait that returns sooner says only that the work was done before it. */
#define WAITED_LEAST_NS 10000
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

static struct span span_of(const struct queue *queue, const struct sum *sum)
{
	return (struct span){
		.start_ns = queue->has_before && queue->before_ns > sum->first_ns ?
			    queue->before_ns : sum->first_ns,
		.end_ns = sum->last_ns,
		.stream = queue->stream->number,
		.cgroup_id = queue->cgroup_id,
		.context = sum->context,
		.has_context = sum->has_context,
		.launches = sum->launches,
		.copies = sum->copies,
		.copied_bytes = sum->copied_bytes,
		.collectives = sum->collectives,
		.shed = sum->shed,
		.extent = (double)sum->extent / EXTENT_SCALE,
		.pid = queue->process->pid,
		.gpu = sum->gpu,
		.mix = -1,
	};
}

static int close_span(struct spans *spans, struct queue *queue, uint32_t count,
		      const struct proof *proof, uint8_t closed_by)
{
	struct sum sum = {0};
	struct span span;
	uint32_t all;
	struct op *ops = ops_of(queue, &all);

	for (uint32_t i = 0; i < count; i++)
		sum_add(spans, &sum, &ops[i]);
	queue_merge(spans, queue);
	sum_join(&sum, &queue->folded);
	span = span_of(queue, &sum);
	span.closed_by = closed_by;
	if (proof) {
		span.proof_ns = proof->began_ns;
		span.waited_ns = proof->took_ns;
		span.api = proof->api;
		span.end_ns = proof->began_ns;
		if (proof->took_ns >= WAITED_LEAST_NS)
			span.end_ns += proof->took_ns;
		queue->before_ns = proof->began_ns + proof->took_ns;
		queue->has_before = 1;
	}
	if (span.end_ns < span.start_ns)
		span.end_ns = span.start_ns;
	if (!sum.mixless) {
		span.mix = mix_of(spans, queue, count, &sum);
		if (span.mix < 0)
			return -1;
	}
	queue_drop(spans, queue, count);
	memset(&queue->folded, 0, sizeof(queue->folded));
	queue_forget_kinds(spans, queue);
	queue->since_ns = spans->now_ns;
	return buffer_add(&spans->closed, &span, sizeof(span));
}

static int op_order(const void *one, const void *other)
{
	int64_t a = ((const struct op *)one)->began_ns, b = ((const struct op *)other)->began_ns;

	return a < b ? -1 : a > b;
}

static int pending(const struct queue *queue)
{
	uint32_t count;

	ops_of(queue, &count);
	return count || queue->folded.ops;
}

/* The next proof of what is pending: of its stream, or of all streams of its process. */
static struct proof *next_proof(struct queue *queue, int64_t limit)
{
	uint32_t count;
	struct op *ops = ops_of(queue, &count);
	int64_t from_ns = queue->folded.ops ? queue->folded.newest_ns : ops[0].began_ns;
	struct proof *own = proofs_first(&queue->stream->proofs, from_ns, limit);
	struct proof *all = proofs_first(&queue->process->proofs, from_ns, limit);

	return own && (!all || proof_order(own, all) <= 0) ? own : all;
}

static uint32_t began_by(const struct queue *queue, int64_t until_ns)
{
	uint32_t count, low = 0;
	struct op *ops = ops_of(queue, &count);

	if (count && ops[count - 1].began_ns <= until_ns)
		return count;
	while (low < count) {
		uint32_t middle = low + (count - low) / 2;

		if (ops[middle].began_ns <= until_ns)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

static int close_queue(struct spans *spans, struct queue *queue, int64_t limit)
{
	struct proof *proof;

	if (queue->unordered) {
		queue_tidy(queue);
		sort(&queue->ops, sizeof(struct op), op_order);
		queue->unordered = 0;
	}
	while (pending(queue) && (proof = next_proof(queue, limit))) {
		uint32_t count = began_by(queue, proof->began_ns);

		/* In how many cgroups the process was matters to nobody here. */
		if (!proof->closed || proof->last_stream != queue->stream->number)
			proof->closed++;
		proof->last_stream = queue->stream->number;
		if (close_span(spans, queue, count, proof, CLOSED_BY_PROOF))
			return -1;
	}
	queue_tidy(queue);
	return 0;
}

/* What nothing has proven done: of all queues, or of those that are held for too long. */
static int give_up(struct spans *spans, struct process *process, uint8_t closed_by)
{
	size_t first = spans->closed.used;
	int64_t last_stream = 0;

	process->unproven = 0;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		uint32_t count;

		ops_of(queue, &count);
		if (!pending(queue) || (closed_by == CLOSED_BY_AGE &&
					spans->now_ns - queue->since_ns < spans->hold_ns))
			continue;
		if (close_span(spans, queue, count, NULL, closed_by))
			return -1;
		queue_tidy(queue);
		if (!process->unproven || last_stream != queue->stream->number)
			process->unproven++;
		last_stream = queue->stream->number;
	}
	for (; first < spans->closed.used; first += sizeof(struct span))
		((struct span *)(spans->closed.bytes + first))->streams = process->unproven;
	return 0;
}

int process_close(struct spans *spans, struct process *process, int at_once)
{
	size_t first = spans->closed.used;
	int64_t limit = INT64_MAX;

	proofs_sort(&process->proofs);
	if (!at_once)
		limit = proofs_unsettled(spans, &process->proofs, limit);
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		if (queue != queue->stream->first)
			continue;
		proofs_sort(&queue->stream->proofs);
		if (!at_once)
			limit = proofs_unsettled(spans, &queue->stream->proofs, limit);
	}
	for (struct queue *queue = process->queues; queue; queue = queue->next)
		if (close_queue(spans, queue, limit))
			return -1;
	for (; first < spans->closed.used; first += sizeof(struct span)) {
		struct span *span = (struct span *)(spans->closed.bytes + first);

		span->streams = proofs_closed(&process->proofs, span);
	}
	proofs_forget(spans, process, &process->proofs, limit);
	for (struct queue *queue = process->queues; queue; queue = queue->next)
		proofs_forget(spans, process, &queue->stream->proofs, limit);
	return 0;
}

/* What open spans are certain to cover: those that no proof has divided that is to settle. */
static int tell_open(struct spans *spans, const struct process *process)
{
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		uint32_t count;
		struct op *ops = ops_of(queue, &count);
		struct sum sum = queue->folded;
		struct span span;

		if (!pending(queue) || queue->stream->proofs.used || process->proofs.used)
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

static int visit(struct spans *spans, struct process *process, int stopping)
{
	int gone = process->gone_ns && spans->now_ns - process->gone_ns >= spans->settle_ns;

	if (process_close(spans, process, stopping || gone))
		return -1;
	if (stopping || gone) {
		if (give_up(spans, process, gone ? CLOSED_BY_EXIT : CLOSED_BY_STOP))
			return -1;
		process_free(spans, process);
		return 0;
	}
	if (give_up(spans, process, CLOSED_BY_AGE) || tell_open(spans, process))
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
	struct buffer *buffers[] = {&spans->closed, &spans->open, &spans->mix_sizes,
				    &spans->mix_items, &spans->scratch};

	for (uint32_t i = 0; i < spans->processes.size; i++)
		while (spans->processes.buckets[i])
			process_free(spans, (struct process *)spans->processes.buckets[i]);
	tenants_free(spans);
	items_free(spans);
	seconds_free(spans);
	table_free(&spans->processes);
	table_free(&spans->streams);
	table_free(&spans->queues);
	for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
		free(buffers[i]->bytes);
}
