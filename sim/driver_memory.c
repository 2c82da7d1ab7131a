// SPDX-License-Identifier: Apache-2.0
/* Allocation: plain, managed, pinned, and in stream order. */
#include "memory.h"

static CUresult allocate(struct truth *rec, CUdeviceptr *out, size_t bytes, enum memory_kind kind)
{
	CUresult result = memory_new(out, bytes, kind);

	note_memory(rec, result ? 0 : *out, bytes);
	return result;
}

static CUresult release(struct truth *rec, CUdeviceptr address)
{
	size_t bytes = 0;
	CUresult result = memory_free(address, &bytes);

	note_memory(rec, address, bytes);
	return result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
	CALL("alloc");
	DONE(allocate(rec, out, bytes, KIND_DEVICE));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	CALL("alloc");
	(void)flags;
	DONE(allocate(rec, out, bytes, KIND_MANAGED));
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
				   unsigned element)
{
	CALL("alloc");
	(void)element;
	if (!pitch)
		DONE(CUDA_ERROR_INVALID_VALUE);
	*pitch = (width + 511) / 512 * 512;
	DONE(allocate(rec, out, *pitch * height, KIND_DEVICE));
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	CALL("free");
	struct context *context = context_current();

	/* Memory that work in flight may use is not given away. */
	if (context && device_pointer(address))
		queue_context_wait(context);
	DONE(release(rec, address));
}

static CUresult allocate_async(struct truth *rec, CUdeviceptr *out, size_t bytes, CUstream stream)
{
	if (rec) {
		rec->stream = (uint64_t)stream;
		rec->has |= HAS_STREAM;
	}
	if (!stream_of(stream, false))
		return CUDA_ERROR_INVALID_HANDLE;
	return allocate(rec, out, bytes, KIND_DEVICE);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CALL("alloc");
	DONE(allocate_async(rec, out, bytes, stream));
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
	CALL("alloc");
	DONE(allocate_async(rec, out, bytes, stream));
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
					CUstream stream)
{
	CALL("alloc");
	(void)pool;
	DONE(allocate_async(rec, out, bytes, stream));
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
					     CUstream stream)
{
	CALL("alloc");
	(void)pool;
	DONE(allocate_async(rec, out, bytes, stream));
}

static CUresult release_async(struct truth *rec, CUdeviceptr address, CUstream stream)
{
	if (rec) {
		rec->stream = (uint64_t)stream;
		rec->has |= HAS_STREAM;
	}
	if (!stream_of(stream, false))
		return CUDA_ERROR_INVALID_HANDLE;
	return release(rec, address);
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	CALL("free");
	DONE(release_async(rec, address, stream));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream)
{
	CALL("free");
	DONE(release_async(rec, address, stream));
}

static CUresult host_allocate(struct truth *rec, void **out, size_t bytes)
{
	CUresult result = memory_host_new(out, bytes);

	note_memory(rec, result ? 0 : (uint64_t)*out, bytes);
	return result;
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t bytes)
{
	CALL("alloc");
	DONE(host_allocate(rec, out, bytes));
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	CALL("alloc");
	(void)flags;
	DONE(host_allocate(rec, out, bytes));
}

EXPORT CUresult cuMemFreeHost(void *address)
{
	CALL("free");
	size_t bytes = 0;
	CUresult result = memory_host_free(address, &bytes);

	note_memory(rec, (uint64_t)address, bytes);
	DONE(result);
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags)
{
	CALL("register");
	(void)flags;
	note_memory(rec, (uint64_t)address, bytes);
	DONE(address && bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemHostUnregister(void *address)
{
	CALL("register");
	note_memory(rec, (uint64_t)address, 0);
	DONE(address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned flags)
{
	LEAF();
	(void)flags;
	*out = (CUdeviceptr)address;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	struct context *context = context_current();
	uint64_t used;

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*total = env_number("COTENANT_SIM_MEMORY", 80ULL << 30);
	shared_lock(context->gpu);
	used = shared_bytes_used(context->gpu);
	shared_unlock(context->gpu);
	*available = used < *total ? *total - used : 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	enum memory_kind kind;
	CUdeviceptr b;
	size_t n;

	if (memory_find(address, &b, &n, &kind))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = b;
	if (bytes)
		*bytes = n;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuPointerGetAttribute(void *out, int which, CUdeviceptr address)
{
	enum memory_kind kind;
	CUdeviceptr base;
	size_t bytes;

	if (memory_find(address, &base, &bytes, &kind))
		return CUDA_ERROR_INVALID_VALUE;
	switch (which) {
	case 1: /* context */ *(CUcontext *)out = context_current(); return CUDA_SUCCESS;
	case 2: /* memory type */
		*(uint32_t *)out = kind == KIND_HOST ? MEMORY_HOST : MEMORY_DEVICE;
		return CUDA_SUCCESS;
	case 8: /* managed */ *(uint32_t *)out = kind == KIND_MANAGED; return CUDA_SUCCESS;
	default: *(uint32_t *)out = 0; return CUDA_SUCCESS;
	}
}
