// SPDX-License-Identifier: Apache-2.0
/* What tenants did second by second: counts that need no span to be closed. */
#include <stdlib.h>

#include "spans.h"

struct second *second_of(struct spans *spans, const struct signature *sig, int64_t number)
{
	uint64_t hash = scramble(scramble(scramble(spans->seed[0], number), sig->cgroup_id), sig->gpu);
	struct node *node = table_find(&spans->seconds, hash);
	struct second *second;

	for (; node; node = table_next(node)) {
		second = (struct second *)node;
		if (second->number == number && second->cgroup_id == sig->cgroup_id &&
		    second->gpu == sig->gpu)
			return second;
	}
	second = calloc(1, sizeof(*second));
	if (!second)
		return NULL;
	second->node.hash = hash;
	second->number = number;
	second->cgroup_id = sig->cgroup_id;
	second->gpu = sig->gpu;
	if (!table_add(&spans->seconds, &second->node))
		return second;
	free(second);
	return NULL;
}

void second_add(struct second *second, const struct signature *sig, int64_t took_ns,
		uint64_t bytes, uint32_t weight)
{
	if (sig->work == WORK_LAUNCH)
		second->launches += weight;
	if (sig->work == WORK_COPY && sig->flags & SIG_SIZED_BY_BYTES)
		second->copied_bytes = bytes_sum(second->copied_bytes, bytes, weight);
	if (sig->flags & SIG_WAITS) {
		second->waits += weight;
		second->waited_ns += (uint64_t)took_ns * weight;
	}
}

/* All of them, and begin anew. */
int seconds_take(struct spans *spans, struct buffer *taken)
{
	for (uint32_t i = 0; i < spans->seconds.size; i++) {
		for (struct node *node = spans->seconds.buckets[i]; node; node = node->next) {
			const struct second *second = (struct second *)node;
			size_t size = sizeof(*second) - offsetof(struct second, number);

			if (buffer_add(taken, &second->number, size))
				return -1;
		}
	}
	seconds_free(spans);
	return 0;
}

void seconds_free(struct spans *spans)
{
	for (uint32_t i = 0; i < spans->seconds.size; i++) {
		for (struct node *node = spans->seconds.buckets[i], *next; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	table_free(&spans->seconds);
}
