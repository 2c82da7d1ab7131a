// SPDX-License-Identifier: Apache-2.0
/* Whose work it is: what a tenant has of the room that all share, and what it was refused. */
#include <stdlib.h>

#include "spans.h"

struct tenant *tenant_of(struct spans *spans, uint64_t number)
{
	uint64_t hash = scramble(spans->seed[0], number);
	struct node *node = table_find(&spans->tenants, hash);
	struct tenant *tenant;

	for (; node; node = table_next(node)) {
		tenant = (struct tenant *)node;
		if (tenant->number == number)
			return tenant;
	}
	tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return NULL;
	tenant->node.hash = hash;
	tenant->number = number;
	if (!table_add(&spans->tenants, &tenant->node))
		return tenant;
	free(tenant);
	return NULL;
}

void tenant_refuse(struct spans *spans, struct tenant *tenant, uint32_t weight)
{
	tenant->refused += weight;
	spans->refused += weight;
}

#define DELAY_MOST_NS 100000
#define DELAY_LEAST_NS 15000
#define DELAY_MARGIN_NS 10000
#define WAITS_LEAST 100	/* from which the delay is known */
#define SHARE 20	/* of them, so many are the shortest */

void tenant_slept(struct tenant *tenant, int64_t waited_ns)
{
	tenant->slept++;
	if (waited_ns >= 0 && waited_ns < SHORT_WAIT_US * 1000LL)
		tenant->short_waits[waited_ns / 1000]++;
	if (tenant->slept < UINT32_MAX / 2)
		return;
	tenant->slept /= 2;
	for (int us = 0; us < SHORT_WAIT_US; us++)
		tenant->short_waits[us] /= 2;
}

/*
 * No wait that slept was shorter than the delay, so the shortest ones bound it. A tenant is judged
 * by its own waits: what it does to deceive us concerns nobody else.
 */
int64_t tenant_delay_ns(const struct tenant *tenant)
{
	uint32_t shorter = 0;

	if (tenant->slept < WAITS_LEAST)
		return DELAY_MOST_NS;
	for (int us = 0; us < SHORT_WAIT_US; us++) {
		int64_t delay_ns = (us + 1) * 1000LL + DELAY_MARGIN_NS;

		shorter += tenant->short_waits[us];
		if (shorter < tenant->slept / SHARE)
			continue;
		if (delay_ns < DELAY_LEAST_NS)
			return DELAY_LEAST_NS;
		return delay_ns < DELAY_MOST_NS ? delay_ns : DELAY_MOST_NS;
	}
	return DELAY_MOST_NS;
}

int tenants_take(struct spans *spans, struct buffer *taken)
{
	for (uint32_t i = 0; i < spans->tenants.size; i++) {
		for (struct node *node = spans->tenants.buckets[i], *next; node; node = next) {
			struct tenant *tenant = (struct tenant *)node;
			uint64_t told[] = {tenant->number, tenant->refused};

			next = node->next;
			if (buffer_add(taken, told, sizeof(told)))
				return -1;
			tenant->refused = 0;
			/* A process that moved counts for one tenant, its queues for another. */
			if (tenant->processes || tenant->queues)
				continue;
			table_remove(&spans->tenants, node);
			free(tenant);
		}
	}
	return 0;
}

void tenants_free(struct spans *spans)
{
	for (uint32_t i = 0; i < spans->tenants.size; i++) {
		for (struct node *node = spans->tenants.buckets[i], *next; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	table_free(&spans->tenants);
}
