// SPDX-License-Identifier: Apache-2.0
/* Copies and allocations of more dimensions, between devices, in batches and from pools. */
#include <string.h>

#include "runtime.h"

/* cudaMemcpyKind as the types of its two ends. */
static uint32_t dst_type(int kind)
{
	return kind == 4 ? MEMORY_UNIFIED : kind == 0 || kind == 2 ? MEMORY_HOST : MEMORY_DEVICE;
}

static uint32_t src_type(int kind)
{
	return kind == 4 ? MEMORY_UNIFIED : kind == 0 || kind == 1 ? MEMORY_HOST : MEMORY_DEVICE;
}

struct rectangle {
	void *dst;
	size_t dst_pitch;
	const void *src;
	size_t src_pitch, width, height;
	int kind;
};

static CUDA_MEMCPY2D rectangle(const struct rectangle *r)
{
	CUDA_MEMCPY2D c = { .width = r->width, .height = r->height };

	c.dst_type = dst_type(r->kind);
	c.src_type = src_type(r->kind);
	c.dst_host = r->dst;
	c.dst_device = (CUdeviceptr)r->dst;
	c.src_host = r->src;
	c.src_device = (CUdeviceptr)r->src;
	c.dst_pitch = r->dst_pitch;
	c.src_pitch = r->src_pitch;
	return c;
}

static cudaError_t copy_2d(const struct driver *d, const struct rectangle *r)
{
	CUDA_MEMCPY2D c = rectangle(r);

	return d->cuMemcpy2DUnaligned(&c);
}

static cudaError_t copy_2d_async(const struct driver *d, const struct rectangle *r, CUstream stream)
{
	CUDA_MEMCPY2D c = rectangle(r);

	return d->cuMemcpy2DAsync(&c, stream);
}

ON_DEFAULT_STREAM(cudaMemcpy2D, "memcpy",
		  (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind),
		  copy_2d(d, &(struct rectangle){ dst, dp, src, sp, w, h, kind }))
ON_STREAM(cudaMemcpy2DAsync, "memcpy",
	  (void *dst, size_t dp, const void *src, size_t sp, size_t w, size_t h, int kind,
	   CUstream stream),
	  copy_2d_async(d, &(struct rectangle){ dst, dp, src, sp, w, h, kind }, stream))

struct extent {
	size_t width, height, depth;
};

struct pitched {
	void *address;
	size_t pitch, width, height;
};

struct box {
	void *src_array;
	size_t src_position[3];
	struct pitched src;
	void *dst_array;
	size_t dst_position[3];
	struct pitched dst;
	struct extent extent;
	int kind;
};
_Static_assert(sizeof(struct box) == 160, "cudaMemcpy3DParms");
_Static_assert(offsetof(struct box, extent) == 128, "cudaMemcpy3DParms.extent");

static CUDA_MEMCPY3D box(const struct box *b)
{
	CUDA_MEMCPY3D c = { .width = b->extent.width,
			    .height = b->extent.height,
			    .depth = b->extent.depth };

	c.dst_type = dst_type(b->kind);
	c.src_type = src_type(b->kind);
	c.dst_host = b->dst.address;
	c.dst_device = (CUdeviceptr)b->dst.address;
	c.src_host = b->src.address;
	c.src_device = (CUdeviceptr)b->src.address;
	c.dst_pitch = b->dst.pitch;
	c.src_pitch = b->src.pitch;
	c.dst_height = b->dst.height;
	c.src_height = b->src.height;
	c.src_x = b->src_position[0];
	c.src_y = b->src_position[1];
	c.src_z = b->src_position[2];
	c.dst_x = b->dst_position[0];
	c.dst_y = b->dst_position[1];
	c.dst_z = b->dst_position[2];
	return c;
}

static cudaError_t copy_3d(const struct driver *d, const struct box *b)
{
	CUDA_MEMCPY3D c = box(b);

	return d->cuMemcpy3D(&c);
}

static cudaError_t copy_3d_async(const struct driver *d, const struct box *b, CUstream stream)
{
	CUDA_MEMCPY3D c = box(b);

	return d->cuMemcpy3DAsync(&c, stream);
}

ON_DEFAULT_STREAM(cudaMemcpy3D, "memcpy", (const struct box *b), copy_3d(d, b))
ON_STREAM(cudaMemcpy3DAsync, "memcpy", (const struct box *b, CUstream stream),
	  copy_3d_async(d, b, stream))

static CUcontext context_of(int device)
{
	CUcontext context = NULL;

	driver[0].cuDevicePrimaryCtxRetain(&context, device);
	return context;
}

EXPORT cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
				  size_t bytes)
{
	BEGIN("memcpy");
	FINISH(driver[0].cuMemcpyPeer((CUdeviceptr)dst, context_of(dst_device), (CUdeviceptr)src,
				      context_of(src_device), bytes));
}

EXPORT cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
				       size_t bytes, CUstream stream)
{
	BEGIN("memcpy");
	FINISH(driver[0].cuMemcpyPeerAsync((CUdeviceptr)dst, context_of(dst_device),
					   (CUdeviceptr)src, context_of(src_device), bytes,
					   stream));
}

#if RUNTIME_MAJOR == 13
ON_STREAM(cudaMemcpyBatchAsync, "memcpy",
	  (void **dsts, void **srcs, size_t *sizes, size_t count, void *attributes, size_t *indices,
	   size_t n, CUstream stream),
	  d->cuMemcpyBatchAsync((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, sizes, count, attributes,
				indices, n, stream))
ON_STREAM(cudaMemPrefetchAsync, "prefetch",
	  (const void *address, size_t bytes, CUmemLocation location, unsigned flags,
	   CUstream stream),
	  d->cuMemPrefetchAsync((CUdeviceptr)address, bytes, location, flags, stream))
#else
ON_STREAM(cudaMemPrefetchAsync, "prefetch",
	  (const void *address, size_t bytes, int device, CUstream stream),
	  d->cuMemPrefetchAsync((CUdeviceptr)address, bytes,
				(CUmemLocation){ device >= 0 ? 1 : 2, device }, 0, stream))
#endif

ON_DEFAULT_STREAM(cudaMemset2D, "memset", (void *dst, size_t pitch, int value, size_t w, size_t h),
		  d->cuMemsetD2D8((CUdeviceptr)dst, pitch, (unsigned char)value, w, h))
ON_STREAM(cudaMemset2DAsync, "memset",
	  (void *dst, size_t pitch, int value, size_t w, size_t h, CUstream stream),
	  d->cuMemsetD2D8Async((CUdeviceptr)dst, pitch, (unsigned char)value, w, h, stream))

static cudaError_t symbol_async(const struct driver *d, const void *symbol, void *host,
				size_t bytes, size_t offset, bool to_symbol, CUstream stream)
{
	CUdeviceptr address = 0;
	size_t size;
	cudaError_t error = symbol_address(&address, &size, symbol);

	if (error)
		return error;
	return to_symbol ? d->cuMemcpyHtoDAsync(address + offset, host, bytes, stream)
			 : d->cuMemcpyDtoHAsync(host, address + offset, bytes, stream);
}

ON_STREAM(cudaMemcpyToSymbolAsync, "memcpy",
	  (const void *symbol, const void *src, size_t bytes, size_t offset,
	   int kind __attribute__((unused)), CUstream stream),
	  symbol_async(d, symbol, (void *)(uintptr_t)src, bytes, offset, true, stream))
ON_STREAM(cudaMemcpyFromSymbolAsync, "memcpy",
	  (void *dst, const void *symbol, size_t bytes, size_t offset,
	   int kind __attribute__((unused)), CUstream stream),
	  symbol_async(d, symbol, dst, bytes, offset, false, stream))

EXPORT cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
	BEGIN("alloc");
	FINISH(driver[0].cuMemAllocPitch((CUdeviceptr *)out, pitch, width, height, 4));
}

EXPORT cudaError_t cudaMalloc3D(struct pitched *out, struct extent extent)
{
	BEGIN("alloc");
	out->width = extent.width;
	out->height = extent.height;
	FINISH(driver[0].cuMemAllocPitch((CUdeviceptr *)&out->address, &out->pitch, extent.width,
					 extent.height * extent.depth, 4));
}

ON_STREAM(cudaMallocFromPoolAsync, "alloc",
	  (void **out, size_t bytes, CUmemoryPool pool, CUstream stream),
	  d->cuMemAllocFromPoolAsync((CUdeviceptr *)out, bytes, pool, stream))

EXPORT cudaError_t cudaMemPoolCreate(CUmemoryPool *out, const void *props)
{
	BEGIN("pool");
	FINISH(driver[0].cuMemPoolCreate(out, props));
}

EXPORT cudaError_t cudaMemPoolDestroy(CUmemoryPool pool)
{
	BEGIN("pool");
	FINISH(driver[0].cuMemPoolDestroy(pool));
}

EXPORT cudaError_t cudaMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
	BEGIN("pool");
	FINISH(driver[0].cuMemPoolTrimTo(pool, bytes));
}

EXPORT cudaError_t cudaMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	BEGIN(NULL);
	FINISH(driver[0].cuMemPoolSetAttribute(pool, attribute, value));
}

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(CUmemoryPool *out, int device)
{
	BEGIN(NULL);
	FINISH(driver[0].cuDeviceGetDefaultMemPool(out, device));
}

EXPORT cudaError_t cudaDeviceGetMemPool(CUmemoryPool *out, int device)
{
	BEGIN(NULL);
	FINISH(driver[0].cuDeviceGetMemPool(out, device));
}
