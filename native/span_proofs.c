// SPDX-License-Identifier: Apache-2.0
/* Calls that prove work done, in the order in which they began. */
#include <stdlib.h>

#include "spans.h"

int proof_add(struct spans *spans, struct buffer *proofs, const struct signature *sig,
	      int64_t began_ns, int64_t took_ns)
{
	struct proof proof = {
		.began_ns = began_ns,
		.took_ns = took_ns,
		.came_ns = spans->now_ns,
		.api = sig->api,
	};

	return buffer_add(proofs, &proof, sizeof(proof));
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

/* When the first of these proofs began that has not settled; the limit if all have. */
int64_t proofs_unsettled(const struct spans *spans, const struct buffer *buffer, int64_t limit)
{
	uint32_t count;
	struct proof *proofs = proofs_in(buffer, &count);

	for (uint32_t i = 0; i < count; i++)
		if (spans->now_ns - proofs[i].came_ns < spans->settle_ns &&
		    proofs[i].began_ns < limit)
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

void proofs_forget(struct buffer *buffer, int64_t limit)
{
	uint32_t count, gone = 0;
	struct proof *proofs = proofs_in(buffer, &count);

	while (gone < count && proofs[gone].began_ns < limit)
		gone++;
	memmove(proofs, proofs + gone, (count - gone) * sizeof(*proofs));
	buffer->used = (count - gone) * sizeof(*proofs);
}
