// SPDX-License-Identifier: Apache-2.0
/* The processes that use a GPU, and what each has queued and not proven done. */
#include <stdlib.h>

#include "spans.h"

/* A tenant can make as many streams as it likes, and queue without end. All share this room. */
#define PROCESSES_MAX 16384
#define QUEUES_MAX 65536
#define PROCESS_QUEUES_MAX 4096
/* Operations of a queue that are kept one by one; the older ones are added up. */
#define OPS_MAX 131072
#define PROCESS_OPS_MAX 262144
#define CROWDED_OPS_MAX 16
/* Beyond the first CROWDED_OPS_MAX of each queue, which it may have however crowded it is. */
#define EXTRA_OPS_MAX 1048576
#define FOLDED_ITEMS_MAX 65536
#define FOLDED_KINDS_MAX 1048576
#define MERGED_LEAST 1024

static uint64_t process_hash(const struct spans *spans, uint32_t pid, uint64_t start_ns,
			     uint32_t generation)
{
	return scramble(scramble(spans->seed[0], pid), start_ns ^ generation);
}

struct process *process_find(const struct spans *spans, uint32_t pid, uint64_t start_ns,
			     uint32_t generation)
{
	uint64_t hash = process_hash(spans, pid, start_ns, generation);
	struct node *node = table_find(&spans->processes, hash);

	for (; node; node = table_next(node)) {
		struct process *process = (struct process *)node;

		if (process->pid == pid && process->start_ns == start_ns &&
		    process->generation == generation)
			return process;
	}
	return NULL;
}

struct process *process_of(struct spans *spans, struct tenant *tenant, uint32_t pid,
			   uint64_t start_ns, uint32_t generation)
{
	struct process *process = process_find(spans, pid, start_ns, generation);

	if (process || !room_for(tenant->processes, spans->processes.count, PROCESSES_MAX))
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->node.hash = process_hash(spans, pid, start_ns, generation);
	process->tenant = tenant;
	process->pid = pid;
	process->start_ns = start_ns;
	process->generation = generation;
	if (table_add(&spans->processes, &process->node)) {
		free(process);
		return NULL;
	}
	tenant->processes++;
	return process;
}

static uint64_t context_hash(const struct spans *spans, const struct process *process,
			     uint64_t number)
{
	return scramble(scramble(spans->seed[0], (uintptr_t)process), number);
}

struct context *context_find(const struct spans *spans, const struct process *process,
			     uint64_t number)
{
	struct node *node = table_find(&spans->contexts, context_hash(spans, process, number));

	for (; node; node = table_next(node)) {
		struct context *context = (struct context *)node;

		if (context->process == process && context->number == number)
			return context;
	}
	return NULL;
}

static struct context *context_of(struct spans *spans, struct process *process, uint64_t number)
{
	struct context *context = context_find(spans, process, number);

	if (context)
		return context;
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->node.hash = context_hash(spans, process, number);
	context->process = process;
	context->number = number;
	if (!table_add(&spans->contexts, &context->node))
		return context;
	free(context);
	return NULL;
}

static void context_leave(struct spans *spans, struct context *context)
{
	if (--context->streams)
		return;
	table_remove(&spans->contexts, &context->node);
	proofs_free(spans, context->process, &context->proofs);
	proofs_free(spans, context->process, &context->blocking_proofs);
	free(context);
}

static uint64_t context_number(const struct signature *sig)
{
	return sig->flags & SIG_CONTEXT ? sig->context : 0;
}

static uint64_t stream_hash(const struct spans *spans, const struct process *process,
			    const struct signature *sig, enum stream_kind kind)
{
	uint64_t hash = scramble(scramble(spans->seed[1], (uintptr_t)process), sig->stream);

	/* Each context has default streams of its own. */
	return sig->stream > 0 ? hash : scramble(hash + kind, context_number(sig));
}

struct stream *stream_find(const struct spans *spans, const struct process *process,
			   const struct signature *sig, enum stream_kind kind)
{
	struct node *node = table_find(&spans->streams, stream_hash(spans, process, sig, kind));

	for (; node; node = table_next(node)) {
		struct stream *stream = (struct stream *)node;

		if (stream->process == process && stream->number == sig->stream &&
		    stream->kind == kind &&
		    (sig->stream > 0 || stream->context->number == context_number(sig)))
			return stream;
	}
	return NULL;
}

static struct stream *stream_new(struct spans *spans, struct process *process,
				 const struct signature *sig, enum stream_kind kind)
{
	struct context *context = context_of(spans, process, context_number(sig));
	struct stream *stream = context ? calloc(1, sizeof(*stream)) : NULL;

	if (!stream)
		return NULL;
	stream->node.hash = stream_hash(spans, process, sig, kind);
	stream->process = process;
	stream->number = sig->stream;
	stream->kind = kind;
	stream->kept_ns = INT64_MAX;
	context->streams++;
	stream->context = context;
	if (!table_add(&spans->streams, &stream->node))
		return stream;
	context_leave(spans, context);
	free(stream);
	return NULL;
}

/* What a call says of its stream: the default ones are blocking. */
static int stream_learn(struct spans *spans, struct stream *stream, const struct signature *sig)
{
	struct context *context;

	stream->blocking = sig->stream <= 0 || sig->flags & SIG_BLOCKING;
	stream->non_blocking = !!(sig->flags & SIG_NON_BLOCKING);
	if (!(sig->flags & SIG_CONTEXT) || stream->context->number == sig->context)
		return 0;
	context = context_of(spans, stream->process, sig->context);
	if (!context)
		return -1;
	context->streams++;
	context_leave(spans, stream->context);
	stream->context = context;
	return 0;
}

static void stream_free(struct spans *spans, struct stream *stream)
{
	table_remove(&spans->streams, &stream->node);
	proofs_free(spans, stream->process, &stream->proofs);
	context_leave(spans, stream->context);
	free(stream);
}

/* Queues of one stream, which a process has in each of its cgroups, stand side by side. */
static void queue_place(struct queue *queue)
{
	struct stream *stream = queue->stream;
	struct queue **place = stream->first ? &stream->first->next : &queue->process->queues;

	queue->next = *place;
	*place = queue;
	if (!stream->first)
		stream->first = queue;
}

static struct queue *queue_new(struct spans *spans, struct stream *stream, uint64_t hash)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->node.hash = hash;
	queue->stream = stream;
	if (!table_add(&spans->queues, &queue->node))
		return queue;
	free(queue);
	return NULL;
}

struct queue *queue_of(struct spans *spans, struct tenant *tenant, struct process *process,
		       const struct signature *sig, enum stream_kind kind)
{
	uint64_t hash = scramble(stream_hash(spans, process, sig, kind), sig->cgroup_id);
	struct stream *stream = stream_find(spans, process, sig, kind);
	struct queue *queue = stream ? stream->first : NULL;

	if (stream && stream_learn(spans, stream, sig))
		return NULL;
	for (; queue && queue->stream == stream; queue = queue->next)
		if (queue->cgroup_id == sig->cgroup_id)
			return queue;
	if (!room_for(tenant->queues, spans->queues.count, QUEUES_MAX) ||
	    process->nqueues >= PROCESS_QUEUES_MAX)
		return NULL;
	if (!stream) {
		stream = stream_new(spans, process, sig, kind);
		if (!stream || stream_learn(spans, stream, sig))
			return NULL;
	}
	queue = queue_new(spans, stream, hash);
	if (!queue) {
		if (!stream->first)
			stream_free(spans, stream);
		return NULL;
	}
	queue->process = process;
	queue->tenant = tenant;
	queue->cgroup_id = sig->cgroup_id;
	queue_place(queue);
	process->nqueues++;
	tenant->queues++;
	return queue;
}

static uint32_t extra(uint32_t count)
{
	return count > CROWDED_OPS_MAX ? count - CROWDED_OPS_MAX : 0;
}

/* A queue holds so many operations now, instead of as many as before. */
static void recount(struct spans *spans, struct queue *queue, uint32_t before, uint32_t now)
{
	queue->process->nops += now - before;
	spans->held += (uint64_t)now - before;
	queue->tenant->extra += (uint64_t)extra(now) - extra(before);
	spans->extra += (uint64_t)extra(now) - extra(before);
}

void queue_drop(struct spans *spans, struct queue *queue, uint32_t ops)
{
	uint32_t count;

	ops_of(queue, &count);
	queue->head += ops;
	recount(spans, queue, count, count - ops);
}

void queue_tidy(struct queue *queue)
{
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	if (!queue->head)
		return;
	memmove(queue->ops.bytes, ops, count * sizeof(*ops));
	queue->ops.used = count * sizeof(*ops);
	queue->head = 0;
	buffer_shrink(&queue->ops);
}

/* A queue has other kinds added up now than its tenant is known to have for it. */
static void recount_kinds(struct spans *spans, struct queue *queue)
{
	uint64_t now = queue->folded_items.used / sizeof(struct count);

	queue->tenant->kinds += now - queue->kinds;
	spans->kinds += now - queue->kinds;
	queue->kinds = now;
}

void queue_forget_kinds(struct spans *spans, struct queue *queue)
{
	queue->folded_items.used = queue->merged = 0;
	buffer_shrink(&queue->folded_items);
	recount_kinds(spans, queue);
}

void queue_merge(struct spans *spans, struct queue *queue)
{
	counts_merge(spans, &queue->folded_items);
	recount_kinds(spans, queue);
	if (queue->kinds > FOLDED_ITEMS_MAX ||
	    !room_for(queue->tenant->kinds, spans->kinds, FOLDED_KINDS_MAX)) {
		queue->folded.mixless = 1;
		queue_forget_kinds(spans, queue);
	}
	queue->merged = queue->folded_items.used;
}

/*
 * Add up the older half of its operations: what is waited for may be a million of them. They are
 * merged once they are twice as many as before, so that it costs the same however many kinds
 * there are.
 */
static int fold(struct spans *spans, struct queue *queue)
{
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	for (uint32_t i = 0; i < (count + 1) / 2; i++) {
		struct count one = {ops[i].item, ops[i].weight};

		sum_add(spans, &queue->folded, &ops[i]);
		if (!queue->folded.mixless && buffer_add(&queue->folded_items, &one, sizeof(one)))
			return -1;
	}
	recount_kinds(spans, queue);
	if (queue->folded_items.used >= 2 * queue->merged + MERGED_LEAST * sizeof(struct count) ||
	    !room_for(queue->tenant->kinds, spans->kinds, FOLDED_KINDS_MAX))
		queue_merge(spans, queue);
	queue_drop(spans, queue, (count + 1) / 2);
	queue_tidy(queue);
	return 0;
}

/*
 * No proof may be overtaken by what is added up: those that came are taken at once. That looks at
 * all that the process has, so it waits until as much is new as makes up for it.
 */
static int make_room(struct spans *spans, struct process *process, uint32_t most)
{
	if (process->fresh < (process->nqueues + process->nops) / 8)
		return 0;
	process->fresh = 0;
	if (process_close(spans, process, 1))
		return -1;
	for (struct queue *queue = process->queues; queue; queue = queue->next) {
		uint32_t count;

		ops_of(queue, &count);
		if (count >= most && fold(spans, queue))
			return -1;
	}
	return 0;
}

int queue_add(struct spans *spans, struct queue *queue, const struct op *op)
{
	int crowded = queue->process->nops > PROCESS_OPS_MAX ||
		      !room_for(queue->tenant->extra, spans->extra, EXTRA_OPS_MAX);
	uint32_t count, most = crowded ? CROWDED_OPS_MAX : OPS_MAX;
	struct op *ops = ops_of(queue, &count);

	if (count >= most) {
		if (make_room(spans, queue->process, most))
			return -1;
		ops = ops_of(queue, &count);
	}
	if (!count && !queue->folded.ops)
		queue->since_ns = spans->now_ns;
	if (count && op_end(&ops[count - 1]) > op_end(op))
		queue->unordered = 1;
	if (queue->ops.used + sizeof(*op) > queue->ops.room &&
	    buffer_reserve(&queue->ops, sizeof(*op)))
		return -1;
	*(struct op *)(queue->ops.bytes + queue->ops.used) = *op;
	queue->ops.used += sizeof(*op);
	recount(spans, queue, count, count + 1);
	queue->process->fresh++;
	return 0;
}

int64_t queues_oldest(const struct spans *spans)
{
	int64_t oldest = INT64_MAX;

	for (uint32_t i = 0; i < spans->queues.size; i++) {
		for (struct node *node = spans->queues.buckets[i]; node; node = node->next) {
			const struct queue *queue = (struct queue *)node;
			uint32_t count;
			struct op *ops = ops_of(queue, &count);

			if (queue->folded.ops && queue->folded.first_ns < oldest)
				oldest = queue->folded.first_ns;
			for (uint32_t at = 0; at < count; at++)
				if (ops[at].began_ns < oldest)
					oldest = ops[at].began_ns;
		}
	}
	return oldest;
}

void queue_free(struct spans *spans, struct queue *queue)
{
	struct stream *stream = queue->stream;
	uint32_t count;

	ops_of(queue, &count);
	recount(spans, queue, count, 0);
	queue_forget_kinds(spans, queue);
	queue->process->nqueues--;
	queue->tenant->queues--;
	table_remove(&spans->queues, &queue->node);
	if (stream->first == queue)
		stream->first = queue->next && queue->next->stream == stream ? queue->next : NULL;
	if (!stream->first)
		stream_free(spans, stream);
	free(queue->ops.bytes);
	free(queue->folded_items.bytes);
	free(queue);
}

void process_free(struct spans *spans, struct process *process)
{
	while (process->queues) {
		struct queue *queue = process->queues;

		process->queues = queue->next;
		queue_free(spans, queue);
	}
	table_remove(&spans->processes, &process->node);
	process->tenant->processes--;
	free(process);
}
