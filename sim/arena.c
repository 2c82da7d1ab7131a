// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

ARENA(contexts, context, 1 << 12);
ARENA(streams, stream, 1 << 16);
ARENA(events, event, 1 << 18);
ARENA(modules, module, 1 << 14);
ARENA(functions, function, 1 << 18);

static char *arena_map(const struct arena *arena)
{
	char *base = mmap(NULL, (size_t)arena->size * arena->capacity, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

void *arena_new(struct arena *arena)
{
	struct object *object = NULL;

	pthread_mutex_lock(&arena->lock);
	if (!arena->base)
		arena->base = arena_map(arena);
	if (arena->free) {
		object = arena->free;
		arena->free = object->next_free;
	} else if (arena->base && arena->used < arena->capacity) {
		object = (struct object *)(arena->base + (size_t)arena->size * arena->used++);
	}
	if (object) {
		memset(object, 0, arena->size);
		object->alive = 1;
	}
	pthread_mutex_unlock(&arena->lock);
	return object;
}

void arena_free(struct arena *arena, void *object)
{
	struct object *o = object;

	pthread_mutex_lock(&arena->lock);
	o->alive = 0;
	o->next_free = arena->free;
	arena->free = o;
	pthread_mutex_unlock(&arena->lock);
}

bool arena_holds(const struct arena *arena, const void *object)
{
	size_t offset = (size_t)((const char *)object - arena->base);

	return arena->base && (const char *)object >= arena->base &&
	       offset < (size_t)arena->size * arena->used && offset % arena->size == 0 &&
	       ((const struct object *)object)->alive;
}

void *arena_next(struct arena *arena, void *object)
{
	char *at = object ? (char *)object + arena->size : arena->base;

	for (; at && at < arena->base + (size_t)arena->size * arena->used; at += arena->size)
		if (((struct object *)at)->alive)
			return at;
	return NULL;
}
