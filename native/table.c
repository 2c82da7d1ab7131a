// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "table.h"

#define SIZE_FIRST 64

struct node *table_find(const struct table *table, uint64_t hash)
{
	struct node *node;

	if (!table->size)
		return NULL;
	for (node = table->buckets[hash & (table->size - 1)]; node; node = node->next)
		if (node->hash == hash)
			return node;
	return NULL;
}

static int grow(struct table *table)
{
	uint32_t size = table->size ? table->size * 2 : SIZE_FIRST;
	struct node **buckets = calloc(size, sizeof(*buckets));

	if (!buckets)
		return -1;
	for (uint32_t i = 0; i < table->size; i++) {
		for (struct node *node = table->buckets[i], *next; node; node = next) {
			next = node->next;
			node->next = buckets[node->hash & (size - 1)];
			buckets[node->hash & (size - 1)] = node;
		}
	}
	free(table->buckets);
	table->buckets = buckets;
	table->size = size;
	return 0;
}

int table_add(struct table *table, struct node *node)
{
	if (table->count >= table->size && grow(table))
		return -1;
	node->next = table->buckets[node->hash & (table->size - 1)];
	table->buckets[node->hash & (table->size - 1)] = node;
	table->count++;
	return 0;
}

void table_remove(struct table *table, struct node *node)
{
	struct node **place = &table->buckets[node->hash & (table->size - 1)];

	while (*place && *place != node)
		place = &(*place)->next;
	if (!*place)
		return;
	*place = node->next;
	table->count--;
}

void table_free(struct table *table)
{
	free(table->buckets);
	memset(table, 0, sizeof(*table));
}
