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
