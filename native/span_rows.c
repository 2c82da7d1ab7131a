// SPDX-License-Identifier: Apache-2.0
/* From rows to operations and proofs: which queue each row is of, and what it means there. */
#include <stdlib.h>

#include "spans.h"

/* What the last row of a signature came to, on either side of the boundary. */
struct found {
	struct queue *queues[2];
	struct process *processes[2];
	struct tenant *tenant;
	struct item *item;
	struct second *second;
	int64_t second_ns;
	uint64_t name;
	int64_t size;
};

#define NS_PER_SECOND 1000000000
#define LARGE_BYTES 65536

static struct item *find_item(struct spans *spans, const struct signature *sig, struct found *found,
			      uint64_t name, int64_t size)
{
	struct item wanted = {
		.name = name,
		.size = size,
		.context = sig->flags & SIG_CONTEXT ? sig->context : 0,
		.gpu = sig->gpu,
		.work = sig->work,
		.flags = sig->flags & (SIG_SIZED | SIG_COLLECTIVE | SIG_CONTEXT),
	};

	if (sig->flags & SIG_SIZED_BY_BYTES)
		wanted.flags |= SIG_SIZED;
	if (found->item && found->name == name && found->size == size)
		return found->item;
	found->item = item_of(spans, &wanted);
	found->name = name;
	found->size = size;
	return found->item;
}

static struct process *find_process(struct spans *spans, const struct signature *sig,
				    struct found *found, uint32_t side)
{
	struct process *process = found->processes[side];

	if (!process)
		process = process_of(spans, found->tenant, sig->pid, sig->process_start_ns, side);
	if (process)
		process->used_ns = spans->now_ns;
	found->processes[side] = process;
	return process;
}

static struct queue *find_queue(struct spans *spans, const struct signature *sig,
				struct found *found, uint32_t side)
{
	struct process *process;

	if (found->queues[side])
		return found->queues[side];
	process = find_process(spans, sig, found, side);
	if (process)
		found->queues[side] = queue_of(spans, found->tenant, process, sig->stream,
					       sig->cgroup_id);
	return found->queues[side];
}

/* All streams of a process are done: no queue is needed, which there may be no room for. */
static int add_process_proof(struct spans *spans, const struct signature *sig, struct found *found,
			     int64_t began_ns, int64_t took_ns)
{
	struct process *process = find_process(spans, sig, found, began_ns >= spans->boundary_ns);

	if (!process)
		return 0;
	return proof_add(spans, process, &process->proofs, sig, began_ns, took_ns);
}

static int add_row(struct spans *spans, const struct rows *rows, size_t i, struct found *all)
{
	const struct signature *sig = &rows->signatures[rows->codes[i]];
	struct found *found = &all[rows->codes[i]];
	int64_t began_ns = rows->began_ns[i], took_ns = rows->took_ns[i];
	uint32_t side = began_ns >= spans->boundary_ns;
	struct queue *queue;

	if (!sig->work && !(sig->flags & (SIG_PROVES_STREAM | SIG_PROVES_PROCESS | SIG_WAITS)))
		return 0;
	if ((uint64_t)(began_ns - found->second_ns) >= NS_PER_SECOND || !found->second) {
		found->second = second_of(spans, sig, began_ns / NS_PER_SECOND);
		found->second_ns = began_ns - began_ns % NS_PER_SECOND;
		if (!found->second)
			return -1;
	}
	second_add(found->second, sig, took_ns, rows->bytes[i]);
	if (!sig->work && !(sig->flags & (SIG_PROVES_STREAM | SIG_PROVES_PROCESS)))
		return 0;
	if (!found->tenant)
		found->tenant = tenant_of(spans, sig->tenant);
	if (!found->tenant)
		return -1;
	if (sig->flags & SIG_PROVES_PROCESS)
		return add_process_proof(spans, sig, found, began_ns, took_ns);
	queue = find_queue(spans, sig, found, side);
	if (!queue) {
		/* Without a queue there is nothing that a wait could prove done. */
		tenant_refuse(spans, found->tenant, sig->work ? sig->weight : 0);
		return 0;
	}
	if (sig->work) {
		int64_t size = sig->flags & SIG_SIZED_BY_BYTES ? (int64_t)rows->bytes[i] :
			       sig->flags & SIG_SIZED ? sig->size : 0;
		struct item *item = find_item(spans, sig, found, rows->names[i], size);
		struct op op = {began_ns, took_ns, item ? item->number : 0, sig->weight};

		if (!item || queue_add(spans, queue, &op))
			return -1;
	}
	if (sig->flags & SIG_PROVES_STREAM ||
	    (sig->flags & SIG_PROVES_IF_LARGE && rows->bytes[i] > LARGE_BYTES))
		return proof_add(spans, queue->process, &queue->stream->proofs, sig, began_ns,
				 took_ns);
	return 0;
}

int rows_add(struct spans *spans, const struct rows *rows)
{
	struct found *found = calloc(rows->nsignatures + 1, sizeof(*found));
	int error = found ? 0 : -1;

	for (size_t i = 0; i < rows->count && !error; i++)
		if (rows->codes[i] >= 0 && (size_t)rows->codes[i] < rows->nsignatures)
			error = add_row(spans, rows, i, found);
	free(found);
	return error;
}
