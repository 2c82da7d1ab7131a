// SPDX-License-Identifier: Apache-2.0
/* Arrays, boxes between devices, boxes of memset, and nodes of any kind. */
#include <string.h>

#include "runtime.h"

struct pitched {
	void *address;
	size_t pitch, width, height;
};

struct extent {
	size_t width, height, depth;
};

static CUDA_MEMCPY2D to_array(void *array, const void *src, size_t pitch, size_t w, size_t h)
{
	return (CUDA_MEMCPY2D){ .dst_type = MEMORY_ARRAY,
				.dst_array = array,
				.src_type = MEMORY_HOST,
				.src_host = src,
				.src_pitch = pitch,
				.width = w,
				.height = h };
}

static CUDA_MEMCPY2D from_array(void *dst, size_t pitch, void *array, size_t w, size_t h)
{
	return (CUDA_MEMCPY2D){ .src_type = MEMORY_ARRAY,
				.src_array = array,
				.dst_type = MEMORY_HOST,
				.dst_host = dst,
				.dst_pitch = pitch,
				.width = w,
				.height = h };
}

#define UNUSED __attribute__((unused))
#define TO_PARAMS \
	void *array, size_t x UNUSED, size_t y UNUSED, const void *src, size_t pitch, size_t w, \
		size_t h, int kind UNUSED
#define FROM_PARAMS \
	void *dst, size_t pitch, void *array, size_t x UNUSED, size_t y UNUSED, size_t w, \
		size_t h, int kind UNUSED

ON_DEFAULT_STREAM(cudaMemcpy2DToArray, "memcpy", (TO_PARAMS),
		  d->cuMemcpy2DUnaligned((CUDA_MEMCPY2D[]){ to_array(array, src, pitch, w, h) }))
ON_STREAM(cudaMemcpy2DToArrayAsync, "memcpy", (TO_PARAMS, CUstream stream),
	  d->cuMemcpy2DAsync((CUDA_MEMCPY2D[]){ to_array(array, src, pitch, w, h) }, stream))
ON_DEFAULT_STREAM(cudaMemcpy2DFromArray, "memcpy", (FROM_PARAMS),
		  d->cuMemcpy2DUnaligned((CUDA_MEMCPY2D[]){ from_array(dst, pitch, array, w, h) }))
ON_STREAM(cudaMemcpy2DFromArrayAsync, "memcpy", (FROM_PARAMS, CUstream stream),
	  d->cuMemcpy2DAsync((CUDA_MEMCPY2D[]){ from_array(dst, pitch, array, w, h) }, stream))

struct peer_box {
	void *src_array;
	size_t src_position[3];
	struct pitched src;
	int src_device;
	void *dst_array;
	size_t dst_position[3];
	struct pitched dst;
	int dst_device;
	struct extent extent;
};
_Static_assert(sizeof(struct peer_box) == 168, "cudaMemcpy3DPeerParms");
_Static_assert(offsetof(struct peer_box, extent) == 144, "cudaMemcpy3DPeerParms.extent");

static CUDA_MEMCPY3D peer(const struct peer_box *b)
{
	return (CUDA_MEMCPY3D){ .src_type = MEMORY_DEVICE,
				.src_device = (CUdeviceptr)b->src.address,
				.src_pitch = b->src.pitch,
				.src_height = b->src.height,
				.dst_type = MEMORY_DEVICE,
				.dst_device = (CUdeviceptr)b->dst.address,
				.dst_pitch = b->dst.pitch,
				.dst_height = b->dst.height,
				.width = b->extent.width,
				.height = b->extent.height,
				.depth = b->extent.depth };
}

ON_DEFAULT_STREAM(cudaMemcpy3DPeer, "memcpy", (const struct peer_box *b),
		  d->cuMemcpy3DPeer((CUDA_MEMCPY3D[]){ peer(b) }))
ON_STREAM(cudaMemcpy3DPeerAsync, "memcpy", (const struct peer_box *b, CUstream stream),
	  d->cuMemcpy3DPeerAsync((CUDA_MEMCPY3D[]){ peer(b) }, stream))

/* A box is set as one rectangle of all its rows. */
ON_DEFAULT_STREAM(cudaMemset3D, "memset", (struct pitched at, int value, struct extent e),
		  d->cuMemsetD2D8((CUdeviceptr)at.address, at.pitch, (unsigned char)value, e.width,
				  e.height *e.depth))
ON_STREAM(cudaMemset3DAsync, "memset",
	  (struct pitched at, int value, struct extent e, CUstream stream),
	  d->cuMemsetD2D8Async((CUdeviceptr)at.address, at.pitch, (unsigned char)value, e.width,
			       e.height *e.depth, stream))

ON_STREAM(cudaStreamBeginCaptureToGraph, "capture",
	  (CUstream stream, CUgraph graph, const CUgraphNode *after, const void *edges, size_t n,
	   int mode),
	  d->cuStreamBeginCaptureToGraph(stream, graph, after, edges, n, mode))

#define NODE_KERNEL 0

/* The runtime names a kernel by its stub where the driver wants its handle. */
static cudaError_t translate(char *out, const char *params)
{
	cudaError_t error = 0;
	const void *stub;
	CUfunction function;
	int type;

	memcpy(out, params, 256);
	memcpy(&type, params, sizeof(type));
	if (type != NODE_KERNEL)
		return 0;
	memcpy(&stub, params + 16, sizeof(stub));
	function = kernel_of(stub, &error);
	memcpy(out + 16, &function, sizeof(function));
	return error;
}

static cudaError_t add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
			    const char *params)
{
	char translated[256];
	cudaError_t error = translate(translated, params);

	return error ? error : driver[0].cuGraphAddNode(out, graph, after, NULL, n, translated);
}

#define EDGES const void *edges UNUSED,
#if RUNTIME_MAJOR == 12
EXPORT cudaError_t cudaGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				    size_t n, char *params)
{
	BEGIN("graph");
	FINISH(add_node(out, graph, after, n, params));
}

EXPORT cudaError_t cudaGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				       EDGES size_t n, char *params)
{
	BEGIN("graph");
	FINISH(add_node(out, graph, after, n, params));
}

EXPORT cudaError_t cudaEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	BEGIN("elapsed");
	FINISH(driver[0].cuEventElapsedTime(ms, start, end));
}

ON_STREAM(cudaMemPrefetchAsync_v2, "prefetch",
	  (const void *address, size_t bytes, CUmemLocation location, unsigned flags,
	   CUstream stream),
	  d->cuMemPrefetchAsync((CUdeviceptr)address, bytes, location, flags, stream))
#else
EXPORT cudaError_t cudaGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				    EDGES size_t n, char *params)
{
	BEGIN("graph");
	FINISH(add_node(out, graph, after, n, params));
}
#endif

static cudaError_t set_node(CUgraphExec exec, CUgraphNode node, const char *params)
{
	char translated[256];
	cudaError_t error = translate(translated, params);

	return error ? error : driver[0].cuGraphExecNodeSetParams(exec, node, translated);
}

EXPORT cudaError_t cudaGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, char *params)
{
	BEGIN("graph");
	FINISH(set_node(exec, node, params));
}
