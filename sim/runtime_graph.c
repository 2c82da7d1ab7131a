// SPDX-License-Identifier: Apache-2.0
/* Stream capture and graphs. */
#include <stddef.h>
#include <string.h>

#include "runtime.h"

ON_STREAM(cudaStreamBeginCapture, "capture", (CUstream stream, int mode),
	  d->cuStreamBeginCapture(stream, mode))
ON_STREAM(cudaStreamEndCapture, "capture", (CUstream stream, CUgraph *graph),
	  d->cuStreamEndCapture(stream, graph))
ON_STREAM(cudaStreamIsCapturing, NULL, (CUstream stream, int *status),
	  d->cuStreamIsCapturing(stream, status))
ON_STREAM(cudaGraphLaunch, "graph_launch", (CUgraphExec exec, CUstream stream),
	  d->cuGraphLaunch(exec, stream))
ON_STREAM(cudaGraphUpload, NULL, (CUgraphExec exec, CUstream stream),
	  d->cuGraphUpload(exec, stream))
ON_STREAM(cudaLaunchHostFunc, "host_func", (CUstream stream, void (*function)(void *), void *data),
	  d->cuLaunchHostFunc(stream, function, data))
ON_STREAM(cudaStreamAddCallback, "host_func",
	  (CUstream stream, void (*function)(CUstream, cudaError_t, void *), void *data,
	   unsigned flags),
	  d->cuStreamAddCallback(stream, function, data, flags))
ON_STREAM(cudaGraphInstantiateWithParams, "graph", (CUgraphExec * out, CUgraph graph, void *params),
	  d->cuGraphInstantiateWithParams(out, graph, params))

#if RUNTIME_MAJOR == 13
ON_STREAM(cudaStreamGetCaptureInfo, NULL,
	  (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **after,
	   const void **edges, size_t *n),
	  d->cuStreamGetCaptureInfo(stream, status, id, graph, after, edges, n))
#else
ON_STREAM(cudaStreamGetCaptureInfo_v2, NULL,
	  (CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **after,
	   size_t *n),
	  d->cuStreamGetCaptureInfo(stream, status, id, graph, after, NULL, n))
#endif

EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode)
{
	BEGIN(NULL);
	FINISH(driver[0].cuThreadExchangeStreamCaptureMode(mode));
}

EXPORT cudaError_t cudaGraphCreate(CUgraph *out, unsigned flags)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphCreate(out, flags));
}

EXPORT cudaError_t cudaGraphDestroy(CUgraph graph)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphDestroy(graph));
}

EXPORT cudaError_t cudaGraphClone(CUgraph *out, CUgraph graph)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphClone(out, graph));
}

EXPORT cudaError_t cudaGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphInstantiateWithFlags(out, graph, flags));
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
						 unsigned long long flags)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphInstantiateWithFlags(out, graph, flags));
}

EXPORT cudaError_t cudaGraphExecDestroy(CUgraphExec exec)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphExecDestroy(exec));
}

EXPORT cudaError_t cudaGraphExecUpdate(CUgraphExec exec, CUgraph graph, void *info)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphExecUpdate(exec, graph, info));
}

EXPORT cudaError_t cudaGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	BEGIN(NULL);
	FINISH(driver[0].cuGraphGetNodes(graph, nodes, count));
}

EXPORT cudaError_t cudaGraphNodeGetType(CUgraphNode node, int *type)
{
	BEGIN(NULL);
	FINISH(driver[0].cuGraphNodeGetType(node, type));
}

struct kernel_params {
	const void *function;
	dim3 grid, block;
	unsigned shared_bytes;
	void **params, **extra;
};
_Static_assert(sizeof(struct kernel_params) == 56, "cudaKernelNodeParams");
_Static_assert(offsetof(struct kernel_params, params) == 40, "cudaKernelNodeParams.kernelParams");

static cudaError_t driver_params(CUDA_KERNEL_NODE_PARAMS *out, const struct kernel_params *in)
{
	cudaError_t error = 0;

	memset(out, 0, sizeof(*out));
	out->function = kernel_of(in->function, &error);
	memcpy(out->grid, &in->grid, sizeof(out->grid));
	memcpy(out->block, &in->block, sizeof(out->block));
	out->shared_bytes = in->shared_bytes;
	out->params = in->params;
	out->extra = in->extra;
	return error;
}

#define NODE CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n

static cudaError_t add_kernel(NODE, const struct kernel_params *params)
{
	CUDA_KERNEL_NODE_PARAMS translated;
	cudaError_t error = driver_params(&translated, params);

	return error ? error : driver[0].cuGraphAddKernelNode(out, graph, after, n, &translated);
}

EXPORT cudaError_t cudaGraphAddKernelNode(NODE, const struct kernel_params *params)
{
	BEGIN("graph");
	FINISH(add_kernel(out, graph, after, n, params));
}

static cudaError_t set_kernel(CUgraphExec exec, CUgraphNode node,
			      const struct kernel_params *params)
{
	CUDA_KERNEL_NODE_PARAMS translated;
	cudaError_t error = driver_params(&translated, params);

	if (error)
		return error;
	return exec ? driver[0].cuGraphExecKernelNodeSetParams(exec, node, &translated)
		    : driver[0].cuGraphKernelNodeSetParams(node, &translated);
}

EXPORT cudaError_t cudaGraphKernelNodeSetParams(CUgraphNode node,
						const struct kernel_params *params)
{
	BEGIN("graph");
	FINISH(set_kernel(NULL, node, params));
}

EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
						    const struct kernel_params *params)
{
	BEGIN("graph");
	FINISH(set_kernel(exec, node, params));
}

EXPORT cudaError_t cudaGraphAddMemcpyNode1D(NODE, void *dst, const void *src, size_t bytes,
					    int kind)
{
	CUDA_MEMCPY3D copy = { .width = bytes, .height = 1, .depth = 1 };
	BEGIN("graph");

	/* Where an end is follows from the kind: to the host 2, from the host 1. */
	copy.dst_type = kind == 2 || kind == 0 ? MEMORY_HOST : MEMORY_DEVICE;
	copy.src_type = kind == 1 || kind == 0 ? MEMORY_HOST : MEMORY_DEVICE;
	copy.dst_host = dst;
	copy.dst_device = (CUdeviceptr)dst;
	copy.src_host = src;
	copy.src_device = (CUdeviceptr)src;
	FINISH(driver[0].cuGraphAddMemcpyNode(out, graph, after, n, &copy, NULL));
}

EXPORT cudaError_t cudaGraphAddMemsetNode(NODE, const CUDA_MEMSET_NODE_PARAMS *fill)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphAddMemsetNode(out, graph, after, n, fill, NULL));
}

EXPORT cudaError_t cudaGraphAddEmptyNode(NODE)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphAddEmptyNode(out, graph, after, n));
}

EXPORT cudaError_t cudaGraphAddChildGraphNode(NODE, CUgraph child)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphAddChildGraphNode(out, graph, after, n, child));
}

EXPORT cudaError_t cudaGraphAddHostNode(NODE, const void *params)
{
	BEGIN("graph");
	FINISH(driver[0].cuGraphAddHostNode(out, graph, after, n, params));
}
