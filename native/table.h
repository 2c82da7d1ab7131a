/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of nodes that their owner allocates: a node is the first member of what it is in. */
#ifndef COTENANT_TABLE_H
#define COTENANT_TABLE_H

#include <stdint.h>
#include <string.h>

struct node {
	struct node *next;
	uint64_t hash;
};

struct table {
	struct node **buckets;
	uint32_t size;		/* a power of two */
	uint32_t count;
};

/* Tenants choose what is hashed, so how it is hashed differs from recording to recording. */
static inline uint64_t scramble(uint64_t seed, uint64_t word)
{
	uint64_t mixed = (seed ^ word) * 0xff51afd7ed558ccdULL;

	mixed = (mixed ^ mixed >> 32) * 0xc4ceb9fe1a85ec53ULL;
	return mixed ^ mixed >> 29;
}

/* The first node with this hash; `node->next` leads to the others of its bucket. */
struct node *table_find(const struct table *table, uint64_t hash);
int table_add(struct table *table, struct node *node);
void table_remove(struct table *table, struct node *node);
void table_free(struct table *table);

static inline struct node *table_next(const struct node *node)
{
	uint64_t hash = node->hash;

	for (node = node->next; node; node = node->next)
		if (node->hash == hash)
			return (struct node *)node;
	return NULL;
}

#endif /* COTENANT_TABLE_H */
