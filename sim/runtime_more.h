/* SPDX-License-Identifier: Apache-2.0 */
/* Driver functions behind graphs and copies of more dimensions; see DRIVER_FUNCTIONS. */
#ifndef SIM_RUNTIME_MORE_H
#define SIM_RUNTIME_MORE_H

#define NODE_PARAMS CUgraphNode *, CUgraph, const CUgraphNode *, size_t
#define RUNTIME_MORE_FUNCTIONS(X) \
	X(cuStreamBeginCapture, 10010, (CUstream, int)) \
	X(cuStreamEndCapture, 10000, (CUstream, CUgraph *)) \
	X(cuStreamIsCapturing, 10000, (CUstream, int *)) \
	X(cuStreamGetCaptureInfo, 12030, \
	  (CUstream, int *, uint64_t *, CUgraph *, const CUgraphNode **, const void **, size_t *)) \
	X(cuThreadExchangeStreamCaptureMode, 10010, (int *)) \
	X(cuGraphCreate, 10000, (CUgraph *, unsigned)) \
	X(cuGraphDestroy, 10000, (CUgraph)) \
	X(cuGraphClone, 10000, (CUgraph *, CUgraph)) \
	X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec *, CUgraph, unsigned long long)) \
	X(cuGraphInstantiateWithParams, 12000, (CUgraphExec *, CUgraph, void *)) \
	X(cuGraphExecDestroy, 10000, (CUgraphExec)) \
	X(cuGraphExecUpdate, 12000, (CUgraphExec, CUgraph, void *)) \
	X(cuGraphLaunch, 10000, (CUgraphExec, CUstream)) \
	X(cuGraphUpload, 11010, (CUgraphExec, CUstream)) \
	X(cuGraphAddKernelNode, 12000, (NODE_PARAMS, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphAddMemcpyNode, 10000, (NODE_PARAMS, const CUDA_MEMCPY3D *, CUcontext)) \
	X(cuGraphAddMemsetNode, 10000, (NODE_PARAMS, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
	X(cuGraphAddEmptyNode, 10000, (NODE_PARAMS)) \
	X(cuGraphAddChildGraphNode, 10000, (NODE_PARAMS, CUgraph)) \
	X(cuGraphAddHostNode, 10000, (NODE_PARAMS, const void *)) \
	X(cuGraphGetNodes, 10000, (CUgraph, CUgraphNode *, size_t *)) \
	X(cuGraphNodeGetType, 10000, (CUgraphNode, int *)) \
	X(cuGraphKernelNodeSetParams, 12000, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuGraphExecKernelNodeSetParams, 12000, \
	  (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
	X(cuLaunchHostFunc, 10000, (CUstream, void (*)(void *), void *)) \
	X(cuStreamAddCallback, 7000, \
	  (CUstream, void (*)(CUstream, CUresult, void *), void *, unsigned)) \
	X(cuMemcpy2D, 7000, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy2DUnaligned, 7000, (const CUDA_MEMCPY2D *)) \
	X(cuMemcpy2DAsync, 7000, (const CUDA_MEMCPY2D *, CUstream)) \
	X(cuMemcpy3D, 7000, (const CUDA_MEMCPY3D *)) \
	X(cuMemcpy3DAsync, 7000, (const CUDA_MEMCPY3D *, CUstream)) \
	X(cuMemcpyPeer, 7000, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
	X(cuMemcpyPeerAsync, 7000, \
	  (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	X(cuMemcpyBatchAsync, 13000, \
	  (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, CUstream)) \
	X(cuMemsetD2D8, 7000, (CUdeviceptr, size_t, unsigned char, size_t, size_t)) \
	X(cuMemsetD2D8Async, 7000, (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream)) \
	X(cuMemPrefetchAsync, 12020, (CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream)) \
	X(cuMemAllocPitch, 3020, (CUdeviceptr *, size_t *, size_t, size_t, unsigned)) \
	X(cuMemAllocFromPoolAsync, 11020, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	X(cuMemPoolCreate, 11020, (CUmemoryPool *, const void *)) \
	X(cuMemPoolDestroy, 11020, (CUmemoryPool)) \
	X(cuMemPoolTrimTo, 11020, (CUmemoryPool, size_t)) \
	X(cuMemPoolSetAttribute, 11020, (CUmemoryPool, int, void *)) \
	X(cuDeviceGetDefaultMemPool, 11020, (CUmemoryPool *, CUdevice)) \
	X(cuDeviceGetMemPool, 11020, (CUmemoryPool *, CUdevice)) \
	X(cuMemcpy3DPeer, 7000, (const CUDA_MEMCPY3D *)) \
	X(cuMemcpy3DPeerAsync, 7000, (const CUDA_MEMCPY3D *, CUstream)) \
	X(cuStreamBeginCaptureToGraph, 12030, \
	  (CUstream, CUgraph, const CUgraphNode *, const void *, size_t, int)) \
	X(cuGraphAddNode, 12030, \
	  (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, void *)) \
	X(cuGraphExecNodeSetParams, 12020, (CUgraphExec, CUgraphNode, void *))

#endif
