// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "memory.h"

#define RANGE (1ULL << 42)
#define ALIGN 512
#define CLASSES 64
#define BUCKETS (1 << 14)
#define RETURN_BYTES (1 << 20) /* freed blocks from this size give their pages back */

struct block {
	struct block *next;
	CUdeviceptr address;
	size_t bytes, room;
	struct gpu *gpu; /* NULL for host memory */
	enum memory_kind kind;
};

static CUdeviceptr range, range_end, range_used;
static struct block *blocks[BUCKETS], *spare[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool device_pointer(uint64_t address)
{
	return address >= range && address < range_end;
}

static struct block **bucket(CUdeviceptr address)
{
	return &blocks[(address >> 9) * 0x9E3779B97F4A7C15ULL >> 50];
}

/* Sizes are rounded up to a power of two with two bits of mantissa. */
static int class_of(size_t bytes, size_t *room)
{
	size_t size = bytes < ALIGN ? ALIGN : bytes;
	int shift = 63 - __builtin_clzll(size);
	size_t quarter = 1ULL << (shift > 2 ? shift - 2 : 0);

	*room = (size + quarter - 1) / quarter * quarter;
	*room = (*room + ALIGN - 1) / ALIGN * ALIGN;
	return shift < CLASSES ? shift : CLASSES - 1;
}

/* Addresses that nothing else in the process has; the lock is held. */
static CUdeviceptr take(size_t bytes)
{
	CUdeviceptr at;

	if (!range) {
		size_t size = RANGE;
		void *base = MAP_FAILED;

		for (; base == MAP_FAILED && size > 1ULL << 28; size /= 2)
			base = mmap(NULL, size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base == MAP_FAILED)
			return 0;
		madvise(base, size * 2, MADV_DONTDUMP);
		range_used = (CUdeviceptr)base;
		range_end = range_used + size * 2;
		range = range_used;
	}
	if (bytes > range_end - range_used)
		return 0;
	at = range_used;
	range_used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return at;
}

CUdeviceptr memory_reserve(size_t bytes)
{
	CUdeviceptr at;

	pthread_mutex_lock(&lock);
	at = take(bytes);
	pthread_mutex_unlock(&lock);
	return at;
}

CUresult memory_charge(struct gpu *gpu, int64_t bytes)
{
	struct device *dev = shared_lock(gpu);
	uint64_t *held = &dev->tenants[gpu->tenant].bytes;
	bool fits = bytes <= 0 || shared_bytes_used(gpu) + (uint64_t)bytes <=
					  env_number("COTENANT_SIM_MEMORY", 80ULL << 30);

	if (fits)
		*held += (uint64_t)bytes;
	shared_unlock(gpu);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void remember(struct block *block)
{
	struct block **at = bucket(block->address);

	block->next = *at;
	*at = block;
}

CUresult memory_new(CUdeviceptr *out, size_t bytes, enum memory_kind kind)
{
	struct context *context = context_current();
	struct block *block, **at;
	size_t room;
	int class;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (memory_charge(context->gpu, (int64_t)bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	class = class_of(bytes, &room);
	pthread_mutex_lock(&lock);
	for (at = &spare[class]; *at && (*at)->room != room; at = &(*at)->next)
		;
	block = *at;
	if (block)
		*at = block->next;
	else if ((block = calloc(1, sizeof(*block))) && !(block->address = take(room))) {
		free(block);
		block = NULL;
	}
	if (block) {
		block->room = room;
		block->bytes = bytes;
		block->gpu = context->gpu;
		block->kind = kind;
		remember(block);
		*out = block->address;
	}
	pthread_mutex_unlock(&lock);
	return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct block *forget(CUdeviceptr address)
{
	struct block **at = bucket(address), *block;

	for (; *at && (*at)->address != address; at = &(*at)->next)
		;
	block = *at;
	if (block)
		*at = block->next;
	return block;
}

CUresult memory_free(CUdeviceptr address, size_t *bytes)
{
	struct block *block;
	size_t room;
	int class;

	if (!address)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	block = forget(address);
	if (block && block->gpu) {
		if (block->room >= RETURN_BYTES)
			madvise((void *)block->address, block->room, MADV_DONTNEED);
		class = class_of(block->bytes, &room);
		block->next = spare[class];
		spare[class] = block;
	}
	pthread_mutex_unlock(&lock);
	if (!block || !block->gpu)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = block->bytes;
	memory_charge(block->gpu, -(int64_t)block->bytes);
	return CUDA_SUCCESS;
}

CUresult memory_host_new(void **out, size_t bytes)
{
	struct block *block;

	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	block = calloc(1, sizeof(*block));
	*out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!block || *out == MAP_FAILED) {
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	block->address = (CUdeviceptr)*out;
	block->bytes = bytes;
	block->kind = KIND_HOST;
	pthread_mutex_lock(&lock);
	remember(block);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult memory_host_free(void *address, size_t *bytes)
{
	struct block *block;

	if (!address)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	block = forget((CUdeviceptr)address);
	pthread_mutex_unlock(&lock);
	if (!block)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = block->bytes;
	munmap(address, block->bytes);
	free(block);
	return CUDA_SUCCESS;
}

/* The block that this address lies in. */
CUresult memory_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes, enum memory_kind *kind)
{
	struct block *block = NULL;

	pthread_mutex_lock(&lock);
	for (int i = 0; !block && i < BUCKETS; i++)
		for (block = blocks[i]; block; block = block->next)
			if (address - block->address < block->bytes)
				break;
	if (block) {
		*base = block->address;
		*bytes = block->bytes;
		*kind = block->kind;
	}
	pthread_mutex_unlock(&lock);
	return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void note_memory(struct truth *rec, uint64_t pointer, uint64_t bytes)
{
	if (rec) {
		rec->pointer = pointer;
		rec->bytes = bytes;
		rec->has |= HAS_POINTER | HAS_BYTES;
	}
}
