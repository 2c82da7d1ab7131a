// SPDX-License-Identifier: Apache-2.0
/* Calls that prove work done, in the order in which they returned. */
#include <stdlib.h>

#include "spans.h"

#define PROOFS_MAX 262144

static void recount(struct spans *spans, struct process *process, int64_t more)
{
	process->nproofs += more;
	process->tenant->proofs += more;
	spans->proofs += more;
}

/*
 * Where there is no room for more, those that came are taken at once. That looks at all that the
 * process has, so it waits until there are as many as make up for it.
 */
static int make_room(struct spans *spans, struct process *process)
{
	if (room_for(process->tenant->proofs, spans->proofs, PROOFS_MAX) ||
	    process->nproofs <= (process->nqueues + process->nops) / 8)
		return 0;
	return process_close(spans, process, 1);
}

int proof_add(struct spans *spans, struct process *process, struct buffer *proofs,
	      const struct proof *proof)
{
	if (make_room(spans, process) || buffer_add(proofs, proof, sizeof(*proof)))
		return -1;
	recount(spans, process, 1);
	return 0;
}

/* By when they returned: of those that prove something, the first does. */
int proof_order(const void *one, const void *other)
{
	const struct proof *a = one, *b = other;

	if (proof_end(a) != proof_end(b))
		return proof_end(a) < proof_end(b) ? -1 : 1;
	return a->began_ns < b->began_ns ? -1 : a->began_ns > b->began_ns;
}

void sort(struct buffer *buffer, size_t size, int (*compare)(const void *, const void *))
{
	size_t count = buffer->used / size;

	for (size_t i = 1; i < count; i++) {
		if (compare(buffer->bytes + (i - 1) * size, buffer->bytes + i * size) > 0) {
			qsort(buffer->bytes, count, size, compare);
			return;
		}
	}
}

void proofs_sort(struct buffer *buffer)
{
	sort(buffer, sizeof(struct proof), proof_order);
}

static struct proof *proofs_in(const struct buffer *buffer, uint32_t *count)
{
	*count = buffer->used / sizeof(struct proof);
	return (struct proof *)buffer->bytes;
}

static int settled(const struct spans *spans, const struct proof *proof)
{
	return spans->now_ns - proof->came_ns >= spans->settle_ns;
}

/* When the first of these proofs returned that has not settled; the limit if all have. */
int64_t proofs_unsettled(const struct spans *spans, const struct buffer *buffer, int64_t limit)
{
	uint32_t count;
	struct proof *proofs = proofs_in(buffer, &count);

	for (uint32_t i = 0; i < count && proof_end(&proofs[i]) < limit; i++)
		if (!settled(spans, &proofs[i]))
			return proof_end(&proofs[i]);
	return limit;
}

/* The first of these proofs, of those before the limit, that proves this. */
struct proof *proofs_first(const struct buffer *buffer, const struct op *op, int64_t limit)
{
	int64_t queued_ns = op_end(op);
	uint32_t count, low = 0, high;
	struct proof *proofs = proofs_in(buffer, &count);

	for (high = count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (proof_end(&proofs[middle]) < queued_ns)
			low = middle + 1;
		else
			high = middle;
	}
	/* What is passed over was under way then, or waited for an older event. */
	for (; low < count && proof_end(&proofs[low]) < limit; low++)
		if (proofs[low].cover_ns >= queued_ns || proves_itself(&proofs[low], op))
			return &proofs[low];
	return NULL;
}

void proofs_forget(struct spans *spans, struct process *process, struct buffer *buffer,
		   int64_t limit)
{
	uint32_t count, gone = 0;
	struct proof *proofs = proofs_in(buffer, &count);

	while (gone < count && proof_end(&proofs[gone]) < limit)
		gone++;
	if (!gone)
		return;
	memmove(proofs, proofs + gone, (count - gone) * sizeof(*proofs));
	buffer->used = (count - gone) * sizeof(*proofs);
	buffer_shrink(buffer);
	recount(spans, process, -(int64_t)gone);
}

void proofs_free(struct spans *spans, struct process *process, struct buffer *buffer)
{
	uint32_t count;

	proofs_in(buffer, &count);
	recount(spans, process, -(int64_t)count);
	free(buffer->bytes);
}
