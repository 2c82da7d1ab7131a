// SPDX-License-Identifier: Apache-2.0
/* Copies and memsets of two and three dimensions, between devices, and in batches. */
#include <string.h>

#include "copy.h"

static uint64_t end_of(uint32_t type, const void *host, CUdeviceptr device)
{
	return type == MEMORY_HOST ? (uint64_t)host : device;
}

static const char *way(uint32_t dst, uint32_t src, const struct transfer *t)
{
	if (dst == MEMORY_UNIFIED || src == MEMORY_UNIFIED)
		return copy_direction(t->dst, t->src);
	if (dst == MEMORY_HOST)
		return src == MEMORY_HOST ? "HtoH" : "DtoH";
	return src == MEMORY_HOST ? "HtoD" : "DtoD";
}

static void move_rows(const struct transfer *t, size_t width, size_t height, size_t dst_pitch,
		      size_t src_pitch)
{
	for (size_t y = 0; y < height; y++)
		transfer_move(t->dst + y * dst_pitch, t->src + y * src_pitch, width);
}

static CUresult copy_2d(struct truth *rec, const CUDA_MEMCPY2D *c, struct transfer t)
{
	size_t dst_pitch, src_pitch;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	dst_pitch = c->dst_pitch ? c->dst_pitch : c->width;
	src_pitch = c->src_pitch ? c->src_pitch : c->width;
	t.dst = end_of(c->dst_type, c->dst_host, c->dst_device) + c->dst_y * dst_pitch + c->dst_x;
	t.src = end_of(c->src_type, c->src_host, c->src_device) + c->src_y * src_pitch + c->src_x;
	t.bytes = c->width * c->height;
	t.direction = way(c->dst_type, c->src_type, &t);
	if (c->dst_type != MEMORY_ARRAY && c->src_type != MEMORY_ARRAY)
		move_rows(&t, c->width, c->height, dst_pitch, src_pitch);
	return transfer_time(rec, &t, NODE_MEMCPY);
}

static CUresult copy_3d(struct truth *rec, const CUDA_MEMCPY3D *c, struct transfer t)
{
	size_t dst_pitch, src_pitch;
	struct transfer plane;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	dst_pitch = c->dst_pitch ? c->dst_pitch : c->width;
	src_pitch = c->src_pitch ? c->src_pitch : c->width;
	t.dst = end_of(c->dst_type, c->dst_host, c->dst_device) + c->dst_y * dst_pitch + c->dst_x;
	t.src = end_of(c->src_type, c->src_host, c->src_device) + c->src_y * src_pitch + c->src_x;
	t.bytes = c->width * c->height * c->depth;
	t.direction = way(c->dst_type, c->src_type, &t);
	for (size_t z = 0;
	     c->dst_type != MEMORY_ARRAY && c->src_type != MEMORY_ARRAY && z < c->depth; z++) {
		plane = t;
		plane.dst +=
			(c->dst_z + z) * dst_pitch * (c->dst_height ? c->dst_height : c->height);
		plane.src +=
			(c->src_z + z) * src_pitch * (c->src_height ? c->src_height : c->height);
		move_rows(&plane, c->width, c->height, dst_pitch, src_pitch);
	}
	return transfer_time(rec, &t, NODE_MEMCPY);
}

#define SHAPED(name, twin, type, copy) \
	EXPORT CUresult name(const type *c) \
	{ \
		CALL("memcpy"); \
		DONE(copy(rec, c, (struct transfer){ .mode = WAITS })); \
	} \
	EXPORT CUresult twin(const type *c) \
	{ \
		CALL("memcpy"); \
		DONE(copy(rec, c, (struct transfer){ .mode = WAITS, .per_thread = true })); \
	}

#define SHAPED_ASYNC(name, twin, type, copy) \
	EXPORT CUresult name(const type *c, CUstream stream) \
	{ \
		CALL("memcpy"); \
		DONE(copy(rec, c, (struct transfer){ .stream = stream })); \
	} \
	EXPORT CUresult twin(const type *c, CUstream stream) \
	{ \
		CALL("memcpy"); \
		DONE(copy(rec, c, (struct transfer){ .stream = stream, .per_thread = true })); \
	}

SHAPED(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, copy_2d)
SHAPED(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D, copy_2d)
SHAPED_ASYNC(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D, copy_2d)
SHAPED(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D, copy_3d)
SHAPED_ASYNC(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D, copy_3d)
SHAPED(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D, copy_3d)
SHAPED_ASYNC(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, CUDA_MEMCPY3D, copy_3d)

#define PEER_PARAMS \
	CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t n

static CUresult peer(struct truth *rec, PEER_PARAMS, struct transfer t)
{
	(void)dst_context;
	(void)src_context;
	t.dst = dst;
	t.src = src;
	t.bytes = n;
	t.direction = "DtoD";
	return transfer_copy(rec, &t);
}

EXPORT CUresult cuMemcpyPeer(PEER_PARAMS)
{
	CALL("memcpy");
	DONE(peer(rec, dst, dst_context, src, src_context, n, (struct transfer){ .mode = WAITS }));
}

EXPORT CUresult cuMemcpyPeer_ptds(PEER_PARAMS)
{
	CALL("memcpy");
	DONE(peer(rec, dst, dst_context, src, src_context, n,
		  (struct transfer){ .mode = WAITS, .per_thread = true }));
}

EXPORT CUresult cuMemcpyPeerAsync(PEER_PARAMS, CUstream stream)
{
	CALL("memcpy");
	DONE(peer(rec, dst, dst_context, src, src_context, n,
		  (struct transfer){ .stream = stream }));
}

EXPORT CUresult cuMemcpyPeerAsync_ptsz(PEER_PARAMS, CUstream stream)
{
	CALL("memcpy");
	DONE(peer(rec, dst, dst_context, src, src_context, n,
		  (struct transfer){ .stream = stream, .per_thread = true }));
}

#define BATCH_PARAMS \
	CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, void *attributes, \
		size_t *indices, size_t attribute_count

static CUresult batch(struct truth *rec, BATCH_PARAMS, struct transfer t)
{
	(void)attributes;
	(void)indices;
	(void)attribute_count;
	if (!dsts || !srcs || !sizes || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		transfer_move(dsts[i], srcs[i], sizes[i]);
		t.bytes += sizes[i];
	}
	t.dst = dsts[0];
	t.src = srcs[0];
	t.direction = copy_direction(dsts[0], srcs[0]);
	return transfer_time(rec, &t, NODE_MEMCPY);
}

#define BATCH(name, own, extra) \
	EXPORT CUresult name(BATCH_PARAMS extra, CUstream stream) \
	{ \
		CALL("memcpy"); \
		DONE(batch(rec, dsts, srcs, sizes, count, attributes, indices, attribute_count, \
			   (struct transfer){ .stream = stream, .per_thread = own })); \
	}
#define FAILED , size_t *failed __attribute__((unused))
#define NOTHING

BATCH(cuMemcpyBatchAsync, false, FAILED)
BATCH(cuMemcpyBatchAsync_ptsz, true, FAILED)
BATCH(cuMemcpyBatchAsync_v2, false, NOTHING)
BATCH(cuMemcpyBatchAsync_v2_ptsz, true, NOTHING)

static CUresult fill_2d(struct truth *rec, size_t pitch, uint32_t value, size_t width,
			size_t height, int size, struct transfer t)
{
	for (size_t y = 0; copying && device_pointer(t.dst) && y < height; y++)
		for (size_t x = 0; x < width; x++)
			memcpy((char *)t.dst + y * pitch + x * (size_t)size, &value, (size_t)size);
	t.bytes = width * height * (size_t)size;
	return transfer_time(rec, &t, NODE_MEMSET);
}

#define FILL_2D(name, type, size) \
	EXPORT CUresult name##_v2(CUdeviceptr dst, size_t pitch, type value, size_t w, size_t h) \
	{ \
		CALL("memset"); \
		DONE(fill_2d(rec, pitch, value, w, h, size, \
			     (struct transfer){ .dst = dst, .mode = RETURNS })); \
	} \
	EXPORT CUresult name##_v2_ptds(CUdeviceptr dst, size_t pitch, type value, size_t w, \
				       size_t h) \
	{ \
		CALL("memset"); \
		DONE(fill_2d( \
			rec, pitch, value, w, h, size, \
			(struct transfer){ .dst = dst, .mode = RETURNS, .per_thread = true })); \
	} \
	EXPORT CUresult name##Async(CUdeviceptr dst, size_t pitch, type value, size_t w, size_t h, \
				    CUstream stream) \
	{ \
		CALL("memset"); \
		DONE(fill_2d(rec, pitch, value, w, h, size, \
			     (struct transfer){ .dst = dst, .stream = stream })); \
	} \
	EXPORT CUresult name##Async_ptsz(CUdeviceptr dst, size_t pitch, type value, size_t w, \
					 size_t h, CUstream stream) \
	{ \
		CALL("memset"); \
		DONE(fill_2d( \
			rec, pitch, value, w, h, size, \
			(struct transfer){ .dst = dst, .stream = stream, .per_thread = true })); \
	}

FILL_2D(cuMemsetD2D8, unsigned char, 1)
FILL_2D(cuMemsetD2D16, unsigned short, 2)
FILL_2D(cuMemsetD2D32, unsigned, 4)

static CUresult prefetch(struct truth *rec, CUdeviceptr address, size_t bytes, bool to_device,
			 CUstream stream)
{
	struct transfer t = { .dst = address,
			      .bytes = bytes,
			      .stream = stream,
			      .direction = to_device ? "HtoD" : "DtoH" };

	return transfer_time(rec, &t, NODE_MEMCPY);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device,
				   CUstream stream)
{
	CALL("prefetch");
	DONE(prefetch(rec, address, bytes, device >= 0, stream));
}

EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice device,
					CUstream stream)
{
	CALL("prefetch");
	DONE(prefetch(rec, address, bytes, device >= 0, stream));
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
				      unsigned flags, CUstream stream)
{
	CALL("prefetch");
	(void)flags;
	DONE(prefetch(rec, address, bytes, location.type == 1, stream));
}

EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes,
					   CUmemLocation location, unsigned flags, CUstream stream)
{
	CALL("prefetch");
	(void)flags;
	DONE(prefetch(rec, address, bytes, location.type == 1, stream));
}
