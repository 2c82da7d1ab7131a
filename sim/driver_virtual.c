// SPDX-License-Identifier: Apache-2.0
/* Physical memory apart from addresses, and pools. */
#include <stdlib.h>

#include "memory.h"

#define GRANULARITY (2UL << 20)

struct physical {
	struct object object;
	struct gpu *gpu;
	size_t bytes;
	int refs; /* its handle, and each mapping */
};

struct pool {
	struct object object;
	int device;
};

ARENA(physicals, physical, 1 << 18);
ARENA(pools, pool, 1 << 10);

static struct mapping {
	struct mapping *next;
	CUdeviceptr address;
	size_t bytes;
	struct physical *physical;
} *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(struct physical *physical)
{
	if (--physical->refs == 0) {
		memory_charge(physical->gpu, -(int64_t)physical->bytes);
		arena_free(&physicals, physical);
	}
}

static void note_physical(struct truth *rec, CUmemGenericAllocationHandle handle)
{
	if (rec) {
		rec->handle = handle;
		rec->has |= HAS_HANDLE;
	}
}

/* CUmemAllocationProp: the location is at 8, its type and then its id. */
static int device_of(const void *prop)
{
	const uint32_t *words = prop;

	return prop && words[2] == 1 ? (int)words[3] : 0;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const void *prop,
			    unsigned long long flags)
{
	CALL("alloc");
	struct gpu *gpu = gpu_of(device_of(prop));
	struct physical *physical;

	(void)flags;
	note_memory(rec, 0, bytes);
	if (!out || !bytes || !gpu || !atomic_load(&gpu->shared))
		DONE(CUDA_ERROR_INVALID_VALUE);
	if (memory_charge(gpu, (int64_t)bytes) || !(physical = arena_new(&physicals)))
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	physical->gpu = gpu;
	physical->bytes = bytes;
	physical->refs = 1;
	*out = (CUmemGenericAllocationHandle)physical;
	note_physical(rec, *out);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CALL("free");
	struct physical *physical = (struct physical *)handle;

	note_physical(rec, handle);
	if (!arena_holds(&physicals, physical))
		DONE(CUDA_ERROR_INVALID_VALUE);
	note_memory(rec, 0, physical->bytes);
	pthread_mutex_lock(&lock);
	drop(physical);
	pthread_mutex_unlock(&lock);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
				    CUdeviceptr wanted, unsigned long long flags)
{
	CALL("map");
	CUdeviceptr at;

	(void)alignment;
	(void)wanted;
	(void)flags;
	if (!out || !bytes || !(at = memory_reserve(bytes + GRANULARITY)))
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (at + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	note_memory(rec, *out, bytes);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	CALL("map");
	note_memory(rec, address, bytes);
	DONE(device_pointer(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CALL("map");
	struct physical *physical = (struct physical *)handle;
	struct mapping *m;

	(void)offset;
	(void)flags;
	note_memory(rec, address, bytes);
	note_physical(rec, handle);
	if (!arena_holds(&physicals, physical) || !device_pointer(address))
		DONE(CUDA_ERROR_INVALID_VALUE);
	m = malloc(sizeof(*m));
	pthread_mutex_lock(&lock);
	*m = (struct mapping){ mappings, address, bytes, physical };
	mappings = m;
	physical->refs++;
	pthread_mutex_unlock(&lock);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CALL("map");
	struct mapping **at = &mappings, *m;
	int found = 0;

	note_memory(rec, address, bytes);
	pthread_mutex_lock(&lock);
	while ((m = *at)) {
		if (m->address - address >= bytes) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		drop(m->physical);
		free(m);
		found++;
	}
	pthread_mutex_unlock(&lock);
	DONE(found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
	CALL("map");
	struct physical *found = NULL;

	pthread_mutex_lock(&lock);
	for (struct mapping *m = mappings; m && !found; m = m->next)
		if ((CUdeviceptr)address - m->address < m->bytes)
			found = m->physical;
	if (found)
		found->refs++;
	pthread_mutex_unlock(&lock);
	note_memory(rec, (uint64_t)address, 0);
	if (!found || !out)
		DONE(CUDA_ERROR_INVALID_VALUE);
	*out = (CUmemGenericAllocationHandle)found;
	note_physical(rec, *out);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const void *access, size_t count)
{
	CALL("map");
	(void)access;
	(void)count;
	note_memory(rec, address, bytes);
	DONE(device_pointer(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemGetAllocationGranularity(size_t *out, const void *prop, int option)
{
	LEAF();
	(void)prop;
	(void)option;
	*out = GRANULARITY;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const void *props)
{
	CALL("pool");
	(void)props;
	if (!out || !(*out = arena_new(&pools)))
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	note_physical(rec, (uint64_t)*out);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL("pool");
	note_physical(rec, (uint64_t)pool);
	if (!arena_holds(&pools, pool))
		DONE(CUDA_ERROR_INVALID_VALUE);
	arena_free(&pools, pool);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
	CALL("pool");
	note_physical(rec, (uint64_t)pool);
	note_memory(rec, 0, bytes);
	DONE(arena_holds(&pools, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	(void)attribute;
	(void)value;
	return arena_holds(&pools, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult default_pool(CUmemoryPool *out, CUdevice device)
{
	static CUmemoryPool known[GPUS];

	if (!gpu_of(device) || !out)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!known[device])
		known[device] = arena_new(&pools);
	pthread_mutex_unlock(&lock);
	*out = known[device];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
	return default_pool(out, device);
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
	return default_pool(out, device);
}

EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, int advice, CUdevice device)
{
	LEAF();
	(void)address;
	(void)bytes;
	(void)advice;
	(void)device;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice,
			       CUmemLocation location)
{
	LEAF();
	(void)address;
	(void)bytes;
	(void)advice;
	(void)location;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	(void)flags;
	return arena_holds(&contexts, peer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
