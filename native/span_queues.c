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

/*
 * Whether a tenant that has so many may have one more, as in bpf/common/quota.bpf.h: one that takes
 * all it can gets half, two get a third each, and as much is left for whoever comes later.
 */
static int room_for(uint64_t mine, uint64_t all, uint64_t most)
{
	return all + mine < most;
}

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

/* Queues of one stream, which a process has in each of its cgroups, stand side by side. */
static struct queue **place_of(struct process *process, int64_t stream)
{
	for (struct queue **at = &process->queues; process->moved && *at; at = &(*at)->next)
		if ((*at)->stream == stream)
			return at;
	return &process->queues;
}

/* What proved the stream done before the first row from this cgroup came may prove that one, too. */
static int inherit_proofs(struct queue *queue, const struct queue *sibling)
{
	return sibling->proofs.used ?
	       buffer_add(&queue->proofs, sibling->proofs.bytes, sibling->proofs.used) : 0;
}

struct queue *queue_of(struct spans *spans, struct tenant *tenant, struct process *process,
		       int64_t stream, int64_t cgroup_id)
{
	uint64_t hash = scramble(scramble((uintptr_t)process ^ spans->seed[1], stream), cgroup_id);
	struct node *node = table_find(&spans->queues, hash);
	struct queue *queue, **place;

	for (; node; node = table_next(node)) {
		queue = (struct queue *)node;
		if (queue->process == process && queue->stream == stream &&
		    queue->cgroup_id == cgroup_id)
			return queue;
	}
	if (!room_for(tenant->queues, spans->queues.count, QUEUES_MAX) ||
	    process->nqueues >= PROCESS_QUEUES_MAX)
		return NULL;
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	queue->node.hash = hash;
	queue->process = process;
	queue->tenant = tenant;
	queue->stream = stream;
	queue->cgroup_id = cgroup_id;
	if (table_add(&spans->queues, &queue->node)) {
		free(queue);
		return NULL;
	}
	if (process->queues && process->queues->cgroup_id != cgroup_id)
		process->moved = 1;
	place = place_of(process, stream);
	queue->next = *place;
	*place = queue;
	process->nqueues++;
	tenant->queues++;
	if (queue->next && queue->next->stream == stream && inherit_proofs(queue, queue->next))
		return NULL;
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
}

/* Add up the older half of its operations: what is waited for may be a million of them. */
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
	counts_merge(spans, &queue->folded_items);
	if (queue->folded_items.used > FOLDED_ITEMS_MAX * sizeof(struct count)) {
		queue->folded.mixless = 1;
		queue->folded_items.used = 0;
	}
	queue_drop(spans, queue, (count + 1) / 2);
	queue_tidy(queue);
	return 0;
}

/* No proof may be overtaken by what is added up: those that came are taken at once. */
static int make_room(struct spans *spans, struct queue *queue, uint32_t most)
{
	uint32_t count;

	if (process_close(spans, queue->process, 1))
		return -1;
	ops_of(queue, &count);
	return count >= most ? fold(spans, queue) : 0;
}

int queue_add(struct spans *spans, struct queue *queue, const struct op *op)
{
	int crowded = queue->process->nops > PROCESS_OPS_MAX ||
		      !room_for(queue->tenant->extra, spans->extra, EXTRA_OPS_MAX);
	uint32_t count, most = crowded ? CROWDED_OPS_MAX : OPS_MAX;
	struct op *ops = ops_of(queue, &count);

	if (count >= most) {
		if (make_room(spans, queue, most))
			return -1;
		ops = ops_of(queue, &count);
	}
	if (!count && !queue->folded.ops)
		queue->since_ns = spans->now_ns;
	if (count && ops[count - 1].began_ns > op->began_ns)
		queue->unordered = 1;
	if (queue->ops.used + sizeof(*op) > queue->ops.room &&
	    buffer_reserve(&queue->ops, sizeof(*op)))
		return -1;
	*(struct op *)(queue->ops.bytes + queue->ops.used) = *op;
	queue->ops.used += sizeof(*op);
	recount(spans, queue, count, count + 1);
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
			for (uint32_t at = 0; at < count; at += queue->unordered ? 1 : count)
				if (ops[at].began_ns < oldest)
					oldest = ops[at].began_ns;
		}
	}
	return oldest;
}

void queue_free(struct spans *spans, struct queue *queue)
{
	uint32_t count;

	ops_of(queue, &count);
	recount(spans, queue, count, 0);
	queue->process->nqueues--;
	queue->tenant->queues--;
	table_remove(&spans->queues, &queue->node);
	free(queue->ops.bytes);
	free(queue->proofs.bytes);
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
	free(process->proofs.bytes);
	free(process);
}
