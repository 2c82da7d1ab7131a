// SPDX-License-Identifier: Apache-2.0
/* From rows to operations and proofs: which queue each row is of, and what it means there. */
#include <stdlib.h>

#include "spans.h"

/* What the last row of a signature came to, on either side of the boundary. */
struct found {
	struct queue *queues[2][2];	/* by side and kind */
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
#define CERTAIN_LEAST_NS 100000	/* less than this is delay of the host, or may be */
#define SPIN_NS 10000		/* from the device to the return of a spinning call, at most */
#define COPY_FLOOR_NS 200000
#define COPY_BYTES_PER_NS 2	/* of a copy through memory of the host */

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
				struct found *found, uint32_t side, enum stream_kind kind)
{
	struct process *process;

	if (found->queues[side][kind])
		return found->queues[side][kind];
	process = find_process(spans, sig, found, side);
	if (process)
		found->queues[side][kind] = queue_of(spans, found->tenant, process, sig, kind);
	return found->queues[side][kind];
}

/*
 * A copy that names no stream has done its work when it returns, like what it waits for; a small
 * one to the device may return before the device has come to it, and proves nothing else.
 */
static int ends_by_itself(const struct signature *sig, uint64_t bytes)
{
	return sig->flags & SIG_IF_LARGE && bytes <= LARGE_BYTES;
}

static int is_proof(const struct signature *sig, uint64_t bytes)
{
	return sig->flags & (SIG_PROVES_STREAM | SIG_PROVES_CONTEXT | SIG_PROVES_BLOCKING) &&
	       !ends_by_itself(sig, bytes);
}

/* What the thread saw of the device; a copy takes time of its own on the host. */
static void see(const struct found *found, const struct signature *sig, uint64_t bytes,
		int64_t seen_ns, struct proof *proof)
{
	uint64_t least_ns = CERTAIN_LEAST_NS;

	proof->seen_ns = seen_ns;
	proof->not_ready = !!(sig->flags & SIG_NOT_READY);
	if (!seen_ns || proof->not_ready)
		return;
	if (sig->work)
		least_ns += COPY_FLOOR_NS + bytes / COPY_BYTES_PER_NS;
	proof->margin_ns = least_ns < UINT32_MAX ? least_ns : UINT32_MAX;
	proof->delay_ns = SPIN_NS;
	if (!(sig->flags & SIG_WOKEN))
		return;
	if (!sig->work)
		tenant_slept(found->tenant, seen_ns - proof->began_ns);
	proof->delay_ns = tenant_delay_ns(found->tenant);
}

static struct buffer *proven_by(struct spans *spans, const struct signature *sig,
				const struct process *process)
{
	struct stream *stream;
	struct context *context;

	if (sig->flags & SIG_PROVES_STREAM) {
		stream = stream_find(spans, process, sig, STREAM_PLAIN);
		return stream ? &stream->proofs : NULL;
	}
	context = context_find(spans, process, sig->flags & SIG_CONTEXT ? sig->context : 0);
	if (!context)
		return NULL;
	return sig->flags & SIG_PROVES_CONTEXT ? &context->proofs : &context->blocking_proofs;
}

/* Where nothing was queued, nothing is proven, and no room is needed. */
static int add_proof(struct spans *spans, const struct rows *rows, size_t i, struct found *found)
{
	const struct signature *sig = &rows->signatures[rows->codes[i]];
	struct proof proof = {
		.began_ns = rows->began_ns[i],
		.took_ns = rows->took_ns[i],
		.cover_ns = sig->flags & SIG_RECORDED ? (int64_t)rows->bytes[i] : rows->began_ns[i],
		.last_ns = INT64_MIN,
		.came_ns = spans->now_ns,
		.api = sig->api,
	};
	struct process *process = find_process(spans, sig, found,
					       proof.began_ns >= spans->boundary_ns);
	struct buffer *proofs = process ? proven_by(spans, sig, process) : NULL;

	if (!proofs)
		return 0;
	see(found, sig, rows->bytes[i], rows->seen_ns[i], &proof);
	return proof_add(spans, process, proofs, &proof);
}

/* It is proven by itself, once all is that the device does before. */
static int add_copy_proof(struct spans *spans, const struct rows *rows, size_t i,
			  struct queue *queue)
{
	struct proof proof = {
		.began_ns = rows->began_ns[i],
		.took_ns = rows->took_ns[i],
		.cover_ns = rows->began_ns[i] + (int64_t)rows->took_ns[i],
		.last_ns = INT64_MIN,
		.margin_ns = COPY_NS + rows->bytes[i] / LINK_BYTES_PER_NS,
		.came_ns = spans->now_ns,
		.api = rows->signatures[rows->codes[i]].api,
		.itself = 1,
	};

	return proof_add(spans, queue->process, &queue->stream->proofs, &proof);
}

static int add_work(struct spans *spans, const struct rows *rows, size_t i, struct found *found)
{
	const struct signature *sig = &rows->signatures[rows->codes[i]];
	int64_t began_ns = rows->began_ns[i], took_ns = rows->took_ns[i];
	int itself = ends_by_itself(sig, rows->bytes[i]);
	struct queue *queue = find_queue(spans, sig, found, began_ns >= spans->boundary_ns,
					 itself ? STREAM_COPIES : STREAM_PLAIN);
	int64_t size = sig->flags & SIG_SIZED_BY_BYTES ? (int64_t)rows->bytes[i] :
		       sig->flags & SIG_SIZED ? sig->size : 0;
	struct item *item;
	struct op op;

	if (!queue) {
		tenant_refuse(spans, found->tenant, rows->weights[i]);
		return 0;
	}
	item = find_item(spans, sig, found, rows->names[i], size);
	op = (struct op){began_ns, took_ns, item ? item->number : 0, rows->weights[i]};
	if (!item || queue_add(spans, queue, &op))
		return -1;
	return itself ? add_copy_proof(spans, rows, i, queue) : 0;
}

static int add_row(struct spans *spans, const struct rows *rows, size_t i, struct found *all)
{
	const struct signature *sig = &rows->signatures[rows->codes[i]];
	struct found *found = &all[rows->codes[i]];
	int64_t began_ns = rows->began_ns[i], took_ns = rows->took_ns[i];
	int proves = is_proof(sig, rows->bytes[i]);

	if (!sig->work && !proves && !(sig->flags & SIG_WAITS))
		return 0;
	if ((uint64_t)(began_ns - found->second_ns) >= NS_PER_SECOND || !found->second) {
		found->second = second_of(spans, sig, began_ns / NS_PER_SECOND);
		found->second_ns = began_ns - began_ns % NS_PER_SECOND;
		if (!found->second)
			return -1;
	}
	second_add(found->second, sig, took_ns, rows->bytes[i], rows->weights[i]);
	if (!sig->work && !proves)
		return 0;
	if (!found->tenant)
		found->tenant = tenant_of(spans, sig->tenant);
	if (!found->tenant)
		return -1;
	if (sig->work && add_work(spans, rows, i, found))
		return -1;
	return proves ? add_proof(spans, rows, i, found) : 0;
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
