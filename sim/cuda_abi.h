/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of CUDA's binary interface that the stand-in speaks, declared here so
 * that no toolkit is needed to build it. Layouts are checked below.
 */
#ifndef SIM_CUDA_ABI_H
#define SIM_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* The compiler leaves the frame out of a function that calls nothing, unless it is used. */
#define LEAF() __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef struct module *CUlibrary;
typedef struct function *CUfunction;
typedef struct function *CUkernel;
typedef struct graph *CUgraph;
typedef struct graph_node *CUgraphNode;
typedef struct graph_exec *CUgraphExec;
typedef struct pool *CUmemoryPool;
typedef uint64_t CUmemGenericAllocationHandle;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_IMAGE = 200,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
	CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
	CUDA_ERROR_ILLEGAL_STATE = 401,
};

/* Stream handles that are names, not objects. */
#define STREAM_LEGACY ((CUstream)1)
#define STREAM_PER_THREAD ((CUstream)2)
#define STREAM_NON_BLOCKING 1

enum memory_type { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_UNIFIED };

typedef struct {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	CUstream stream;
	void *attributes;
	uint32_t attribute_count;
} CUlaunchConfig;

typedef struct {
	char bytes[16];
} CUuuid;

typedef struct {
	size_t src_x, src_y;
	uint32_t src_type;
	const void *src_host;
	CUdeviceptr src_device;
	void *src_array;
	size_t src_pitch;
	size_t dst_x, dst_y;
	uint32_t dst_type;
	void *dst_host;
	CUdeviceptr dst_device;
	void *dst_array;
	size_t dst_pitch;
	size_t width, height;
} CUDA_MEMCPY2D;

typedef struct {
	size_t src_x, src_y, src_z, src_lod;
	uint32_t src_type;
	const void *src_host;
	CUdeviceptr src_device;
	void *src_array;
	void *src_context;
	size_t src_pitch, src_height;
	size_t dst_x, dst_y, dst_z, dst_lod;
	uint32_t dst_type;
	void *dst_host;
	CUdeviceptr dst_device;
	void *dst_array;
	void *dst_context;
	size_t dst_pitch, dst_height;
	size_t width, height, depth;
} CUDA_MEMCPY3D;

typedef struct {
	CUfunction function;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes;
	void **params;
	void **extra;
	CUkernel kernel;
	CUcontext context;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct {
	CUdeviceptr dst;
	size_t pitch;
	uint32_t value;
	uint32_t element_bytes;
	size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
	uint32_t type; /* 1: device */
	int id;
} CUmemLocation;

typedef struct {
	uint32_t x, y, z;
} dim3;

typedef struct {
	dim3 grid;
	dim3 block;
	size_t shared_bytes;
	CUstream stream;
	void *attributes;
	uint32_t attribute_count;
} cudaLaunchConfig_t;

_Static_assert(sizeof(CUlaunchConfig) == 56, "CUlaunchConfig");
_Static_assert(offsetof(CUlaunchConfig, stream) == 32, "CUlaunchConfig.hStream");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "cudaLaunchConfig_t");
_Static_assert(offsetof(cudaLaunchConfig_t, shared_bytes) == 24, "dynamicSmemBytes");
_Static_assert(offsetof(CUDA_MEMCPY2D, width) == 112, "CUDA_MEMCPY2D.WidthInBytes");
_Static_assert(offsetof(CUDA_MEMCPY3D, width) == 176, "CUDA_MEMCPY3D.WidthInBytes");
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72, "CUDA_KERNEL_NODE_PARAMS_v2");
_Static_assert(offsetof(CUDA_KERNEL_NODE_PARAMS, kernel) == 56, "kern");

#endif
