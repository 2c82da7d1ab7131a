// SPDX-License-Identifier: Apache-2.0
/* Operations added up: what a span says of those that it holds. */
#include "spans.h"

static __int128 extent_of(const struct item *item)
{
	__int128 extent = item->flags & SIG_SIZED ? item->size : 0;

	if (item->work == WORK_LAUNCH)
		extent *= EXTENT_SCALE;
	return extent > EXTENT_SCALE ? extent : EXTENT_SCALE;
}

void sum_add(struct spans *spans, struct sum *sum, const struct op *op)
{
	const struct item *item = spans->by_number[op->item];
	int64_t queued_ns = op_end(op);

	if (!sum->ops || op->began_ns < sum->first_ns)
		sum->first_ns = op->began_ns;
	if (!sum->ops || queued_ns > sum->last_ns)
		sum->last_ns = queued_ns;
	if (!sum->ops || sum->gpu < 0)
		sum->gpu = item->gpu;
	if (!sum->has_context && item->flags & SIG_CONTEXT) {
		sum->has_context = 1;
		sum->context = item->context;
	}
	sum->ops++;
	sum->shed += (int64_t)op->weight - 1;
	sum->collectives += !!(item->flags & SIG_COLLECTIVE);
	sum->extent += extent_of(item) * op->weight;
	if (item->work == WORK_LAUNCH)
		sum->launches += op->weight;
	if (item->work == WORK_COPY) {
		sum->copies += op->weight;
		if (item->flags & SIG_SIZED)
			sum->copied_bytes = bytes_sum(sum->copied_bytes, item->size, op->weight);
	}
	for (int half = 0; half < 2; half++)
		sum->salt[half] += item->salt[half] * op->weight;
}

/* `other` is older. */
void sum_join(struct sum *sum, const struct sum *other)
{
	if (!other->ops)
		return;
	if (!sum->ops || other->first_ns < sum->first_ns)
		sum->first_ns = other->first_ns;
	if (!sum->ops || other->last_ns > sum->last_ns)
		sum->last_ns = other->last_ns;
	if (!sum->ops || sum->gpu < 0)
		sum->gpu = other->gpu;
	if (!sum->has_context) {
		sum->has_context = other->has_context;
		sum->context = other->context;
	}
	sum->ops += other->ops;
	sum->shed += other->shed;
	sum->collectives += other->collectives;
	sum->extent += other->extent;
	sum->launches += other->launches;
	sum->copies += other->copies;
	sum->copied_bytes = bytes_sum(sum->copied_bytes, other->copied_bytes, 1);
	sum->mixless |= other->mixless;
	for (int half = 0; half < 2; half++)
		sum->salt[half] += other->salt[half];
}
