// SPDX-License-Identifier: Apache-2.0
/*
 * Items and mixes: each distinct operation gets a number, and so does each distinct set of them.
 *
 * A mix is recognized by a sum over its operations, which does not depend on their order; only of
 * a mix that was never seen is the set itself made.
 */
#include <stdlib.h>

#include "spans.h"

static uint64_t item_hash(const struct spans *spans, const struct item *item, int half)
{
	uint64_t hash = scramble(spans->seed[half], item->name);

	hash = scramble(hash, item->size);
	hash = scramble(hash, item->context);
	return scramble(hash, (uint64_t)(uint32_t)item->gpu << 16 | item->work << 8 | item->flags);
}

static int same(const struct item *one, const struct item *other)
{
	return one->name == other->name && one->size == other->size &&
	       one->context == other->context && one->gpu == other->gpu &&
	       one->work == other->work && one->flags == other->flags;
}

static int number_item(struct spans *spans, struct item *item)
{
	if (spans->nitems == spans->room) {
		uint32_t room = spans->room ? spans->room * 2 : 256;
		struct item **grown = realloc(spans->by_number, room * sizeof(*grown));

		if (!grown)
			return -1;
		spans->by_number = grown;
		spans->room = room;
	}
	item->number = spans->nitems;
	spans->by_number[spans->nitems++] = item;
	return 0;
}

struct item *item_of(struct spans *spans, const struct item *wanted)
{
	uint64_t hash = item_hash(spans, wanted, 0);
	struct node *node = table_find(&spans->items, hash);
	struct item *item;

	for (; node; node = table_next(node))
		if (same((struct item *)node, wanted))
			return (struct item *)node;
	item = malloc(sizeof(*item));
	if (!item)
		return NULL;
	*item = *wanted;
	item->node.hash = hash;
	item->salt[0] = hash | 1;
	item->salt[1] = item_hash(spans, wanted, 1) | 1;
	if (number_item(spans, item)) {
		free(item);
		return NULL;
	}
	if (table_add(&spans->items, &item->node)) {
		spans->nitems--;
		free(item);
		return NULL;
	}
	return item;
}

static int by_item(const void *one, const void *other)
{
	uint32_t a = ((const struct count *)one)->item, b = ((const struct count *)other)->item;

	return a < b ? -1 : a > b;
}

/* The same where there are many counts for each item: without comparing any. */
static int counts_merge_many(const struct spans *spans, struct buffer *counts)
{
	uint64_t *weights = calloc(spans->nitems, sizeof(*weights));
	struct count *all = (struct count *)counts->bytes;
	size_t kept = 0;

	if (!weights)
		return -1;
	for (size_t i = 0; i < counts->used / sizeof(*all); i++)
		weights[all[i].item] += all[i].weight;
	for (uint32_t item = 0; item < spans->nitems; item++)
		if (weights[item])
			all[kept++] = (struct count){item, weights[item]};
	counts->used = kept * sizeof(*all);
	free(weights);
	return 0;
}

/* One count for each item, in order. */
void counts_merge(const struct spans *spans, struct buffer *counts)
{
	struct count *all = (struct count *)counts->bytes;
	size_t count = counts->used / sizeof(*all), kept = 0;

	if (!count || (count > spans->nitems / 4 && !counts_merge_many(spans, counts)))
		return;
	qsort(all, count, sizeof(*all), by_item);
	for (size_t i = 1; i < count; i++) {
		if (all[i].item == all[kept].item)
			all[kept].weight += all[i].weight;
		else
			all[++kept] = all[i];
	}
	counts->used = (kept + 1) * sizeof(*all);
}

/* The number of this mix; -1 if it was never seen. */
int32_t mix_find(const struct spans *spans, const struct sum *sum)
{
	struct node *node = table_find(&spans->mixes, sum->salt[0]);

	for (; node; node = table_next(node))
		if (((struct mix *)node)->salt == sum->salt[1])
			return ((struct mix *)node)->number;
	return -1;
}

/* A new mix of these items; -1 without memory. */
int32_t mix_make(struct spans *spans, const struct sum *sum, struct buffer *counts)
{
	struct mix *mix = malloc(sizeof(*mix));
	uint32_t size;

	if (!mix)
		return -1;
	counts_merge(spans, counts);
	size = counts->used / sizeof(struct count);
	mix->node.hash = sum->salt[0];
	mix->salt = sum->salt[1];
	mix->number = spans->mixes.count;
	if (buffer_add(&spans->mix_items, counts->bytes, counts->used) ||
	    buffer_add(&spans->mix_sizes, &size, sizeof(size)) ||
	    table_add(&spans->mixes, &mix->node)) {
		free(mix);
		return -1;
	}
	return mix->number;
}

static void forget_mixes(struct spans *spans)
{
	for (uint32_t i = 0; i < spans->mixes.size; i++) {
		for (struct node *node = spans->mixes.buckets[i], *next; node; node = next) {
			next = node->next;
			free(node);
		}
	}
	table_free(&spans->mixes);
}

static void mark(struct spans *spans, const struct queue *queue, uint8_t *used)
{
	const struct count *folded = (const struct count *)queue->folded_items.bytes;
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	for (uint32_t i = 0; i < count; i++)
		used[ops[i].item] = 1;
	for (size_t i = 0; i < queue->folded_items.used / sizeof(*folded); i++)
		used[folded[i].item] = 1;
}

static void renumber(struct queue *queue, const uint32_t *numbers)
{
	struct count *folded = (struct count *)queue->folded_items.bytes;
	uint32_t count;
	struct op *ops = ops_of(queue, &count);

	for (uint32_t i = 0; i < count; i++)
		ops[i].item = numbers[ops[i].item];
	for (size_t i = 0; i < queue->folded_items.used / sizeof(*folded); i++)
		folded[i].item = numbers[folded[i].item];
}

/* Forget every mix, and every item that no operation needs any more: numbers begin anew. */
int items_renew(struct spans *spans)
{
	uint8_t *used = calloc(spans->nitems + 1, sizeof(*used));
	uint32_t *numbers = calloc(spans->nitems + 1, sizeof(*numbers));
	uint32_t kept = 0;

	if (!used || !numbers) {
		free(used);
		free(numbers);
		return -1;
	}
	for (uint32_t i = 0; i < spans->queues.size; i++)
		for (struct node *node = spans->queues.buckets[i]; node; node = node->next)
			mark(spans, (struct queue *)node, used);
	for (uint32_t i = 0; i < spans->nitems; i++) {
		struct item *item = spans->by_number[i];

		if (!used[i]) {
			table_remove(&spans->items, &item->node);
			free(item);
			continue;
		}
		numbers[i] = item->number = kept;
		spans->by_number[kept++] = item;
	}
	for (uint32_t i = 0; i < spans->queues.size; i++)
		for (struct node *node = spans->queues.buckets[i]; node; node = node->next)
			renumber((struct queue *)node, numbers);
	spans->nitems = kept;
	spans->told_items = 0;
	spans->epoch++;
	forget_mixes(spans);
	free(used);
	free(numbers);
	return 0;
}

void items_free(struct spans *spans)
{
	for (uint32_t i = 0; i < spans->nitems; i++)
		free(spans->by_number[i]);
	free(spans->by_number);
	table_free(&spans->items);
	forget_mixes(spans);
}
