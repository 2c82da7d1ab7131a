// SPDX-License-Identifier: Apache-2.0
/* Calls that prove work done, in the order in which they began. */
#include <stdlib.h>

#include "spans.h"

#define PROOFS_MAX 524288
/* Whoever waited for so many settle times waits for no call that began before: it took longer. */
#define LONG_SETTLES 4

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
	      const struct signature *sig, int64_t began_ns, int64_t took_ns)
{
	struct proof proof = {
		.began_ns = began_ns,
		.took_ns = took_ns,
		.came_ns = spans->now_ns,
		.api = sig->api,
	};

	if (make_room(spans, process) || buffer_add(proofs, &proof, sizeof(proof)))
		return -1;
	recount(spans, process, 1);
	return 0;
}

int proof_order(const void *one, const void *other)
{
	const struct proof *a = one, *b = other;

	if (a->began_ns != b->began_ns)
		return a->began_ns < b->began_ns ? -1 : 1;
	return a->took_ns < b->took_ns ? -1 : a->took_ns > b->took_ns;
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
	return spans->now_ns - proof->came_ns >= spans->settle_ns ||
	       proof->took_ns >= LONG_SETTLES * (int64_t)spans->settle_ns;
}

/* When the first of these proofs began that has not settled; the limit if all have. */
int64_t proofs_unsettled(const struct spans *spans, const struct buffer *buffer, int64_t limit)
{
	uint32_t count;
	struct proof *proofs = proofs_in(buffer, &count);

	for (uint32_t i = 0; i < count; i++)
		if (proofs[i].began_ns < limit && !settled(spans, &proofs[i]))
			limit = proofs[i].began_ns;
	return limit;
}

/* The first of these proofs that began then or later, before the limit. */
struct proof *proofs_first(const struct buffer *buffer, int64_t from_ns, int64_t limit)
{
	uint32_t count, low = 0, high;
	struct proof *proofs = proofs_in(buffer, &count);

	for (high = count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (proofs[middle].began_ns < from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && proofs[low].began_ns < limit ? proofs + low : NULL;
}

/* What settled proofs have closed says how many streams the same call proved done. */
uint32_t proofs_closed(const struct buffer *buffer, const struct span *span)
{
	uint32_t count;
	struct proof *proofs = proofs_in(buffer, &count);

	for (uint32_t low = 0; low < count;) {
		uint32_t middle = low + (count - low) / 2;
		struct proof wanted = {.began_ns = span->proof_ns, .took_ns = span->waited_ns};
		int side = proof_order(&proofs[middle], &wanted);

		if (!side)
			return proofs[middle].closed;
		if (side < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return 1;
}

void proofs_forget(struct spans *spans, struct process *process, struct buffer *buffer,
		   int64_t limit)
{
	uint32_t count, gone = 0;
	struct proof *proofs = proofs_in(buffer, &count);

	while (gone < count && proofs[gone].began_ns < limit)
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
