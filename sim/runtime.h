/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime library on top of the driver library, built twice: RUNTIME_MAJOR
 * is 12 or 13. Like the real one it links nothing, finds libcuda.so.1 with
 * dlopen() and every function in it with cuGetProcAddress_v2().
 */
#ifndef SIM_RUNTIME_H
#define SIM_RUNTIME_H

#include "cuda_abi.h"
#include <stdbool.h>

#include "private.h"

typedef int cudaError_t;

enum {
	cudaErrorInvalidValue = 1,
	cudaErrorInsufficientDriver = 35,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorInvalidSymbol = 13,
};

/* X(name, version asked for, parameters) */
#define DRIVER_FUNCTIONS(X) \
	X(cuInit, 2000, (unsigned)) \
	X(cuDriverGetVersion, 2020, (int *)) \
	X(cuGetExportTable, 3000, (const void **, const CUuuid *)) \
	X(cuGetErrorName, 6000, (CUresult, const char **)) \
	X(cuGetErrorString, 6000, (CUresult, const char **)) \
	X(cuDeviceGet, 2000, (CUdevice *, int)) \
	X(cuDeviceGetCount, 2000, (int *)) \
	X(cuDeviceGetName, 2000, (char *, int, CUdevice)) \
	X(cuDeviceGetUuid, 11040, (CUuuid *, CUdevice)) \
	X(cuDeviceGetAttribute, 2000, (int *, int, CUdevice)) \
	X(cuDeviceGetPCIBusId, 4010, (char *, int, CUdevice)) \
	X(cuDeviceTotalMem, 3020, (size_t *, CUdevice)) \
	X(cuDeviceCanAccessPeer, 4000, (int *, CUdevice, CUdevice)) \
	X(cuDevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice)) \
	X(cuCtxSetCurrent, 4000, (CUcontext)) \
	X(cuCtxGetCurrent, 4000, (CUcontext *)) \
	X(cuCtxSynchronize, 2000, (void)) \
	X(cuCtxGetStreamPriorityRange, 5050, (int *, int *)) \
	X(cuLibraryLoadData, 12000, \
	  (CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned)) \
	X(cuLibraryUnload, 12000, (CUlibrary)) \
	X(cuLibraryGetKernel, 12000, (CUkernel *, CUlibrary, const char *)) \
	X(cuLibraryGetGlobal, 12000, (CUdeviceptr *, size_t *, CUlibrary, const char *)) \
	X(cuLibraryGetKernelCount, 12040, (unsigned *, CUlibrary)) \
	X(cuLibraryEnumerateKernels, 12040, (CUkernel *, unsigned, CUlibrary)) \
	X(cuKernelGetFunction, 12000, (CUfunction *, CUkernel)) \
	X(cuKernelGetName, 12030, (const char **, CUkernel)) \
	X(cuFuncGetAttribute, 2020, (int *, int, CUfunction)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, (int *, CUfunction, int, size_t)) \
	X(cuLaunchKernel, 7000, \
	  (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
	   CUstream, void **, void **)) \
	X(cuLaunchKernelEx, 11060, (const CUlaunchConfig *, CUfunction, void **, void **)) \
	X(cuLaunchCooperativeKernel, 9000, \
	  (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
	   CUstream, void **)) \
	X(cuMemcpy, 7000, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoD, 7000, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoH, 7000, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyDtoD, 7000, (CUdeviceptr, CUdeviceptr, size_t)) \
	X(cuMemcpyAsync, 7000, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyHtoDAsync, 7000, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync, 7000, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoDAsync, 7000, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemsetD8, 7000, (CUdeviceptr, unsigned char, size_t)) \
	X(cuMemsetD8Async, 7000, (CUdeviceptr, unsigned char, size_t, CUstream)) \
	X(cuMemAlloc, 3020, (CUdeviceptr *, size_t)) \
	X(cuMemAllocManaged, 6000, (CUdeviceptr *, size_t, unsigned)) \
	X(cuMemAllocHost, 3020, (void **, size_t)) \
	X(cuMemHostAlloc, 2020, (void **, size_t, unsigned)) \
	X(cuMemAllocAsync, 11020, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemFree, 3020, (CUdeviceptr)) \
	X(cuMemFreeHost, 2000, (void *)) \
	X(cuMemFreeAsync, 11020, (CUdeviceptr, CUstream)) \
	X(cuMemGetInfo, 3020, (size_t *, size_t *)) \
	X(cuMemHostRegister, 6050, (void *, size_t, unsigned)) \
	X(cuMemHostUnregister, 4000, (void *)) \
	X(cuMemHostGetDevicePointer, 3020, (CUdeviceptr *, void *, unsigned)) \
	X(cuPointerGetAttribute, 4000, (void *, int, CUdeviceptr)) \
	X(cuStreamCreate, 2000, (CUstream *, unsigned)) \
	X(cuStreamCreateWithPriority, 5050, (CUstream *, unsigned, int)) \
	X(cuStreamDestroy, 4000, (CUstream)) \
	X(cuStreamSynchronize, 7000, (CUstream)) \
	X(cuStreamQuery, 7000, (CUstream)) \
	X(cuStreamWaitEvent, 7000, (CUstream, CUevent, unsigned)) \
	X(cuStreamGetFlags, 7000, (CUstream, unsigned *)) \
	X(cuStreamGetPriority, 7000, (CUstream, int *)) \
	X(cuEventCreate, 2000, (CUevent *, unsigned)) \
	X(cuEventDestroy, 4000, (CUevent)) \
	X(cuEventRecord, 7000, (CUevent, CUstream)) \
	X(cuEventRecordWithFlags, 11010, (CUevent, CUstream, unsigned)) \
	X(cuEventQuery, 2000, (CUevent)) \
	X(cuEventSynchronize, 2000, (CUevent)) \
	X(cuEventElapsedTime, RUNTIME_MAJOR == 12 ? 2000 : 12080, (float *, CUevent, CUevent)) \
	RUNTIME_MORE_FUNCTIONS(X)

#include "runtime_more.h"

struct driver {
#define FIELD(name, version, params) CUresult(*name) params;
	DRIVER_FUNCTIONS(FIELD)
#undef FIELD
};

/* 0: the legacy default stream; 1: the one of the calling thread. */
extern struct driver driver[2];
extern const struct private_table *private_table;

cudaError_t runtime_begin(const char *api, const char *op);
cudaError_t runtime_end(cudaError_t result);
cudaError_t runtime_load(void);

/* The first and the last line of a runtime function that works on a context. */
#define BEGIN(op) cudaError_t ready = runtime_begin(__func__, op)
#define FINISH(result) return runtime_end(ready ? ready : (result))

/* A function on a stream, and its twin for programs with per-thread default streams. */
#define TWINS(name, twin, op, params, call) \
	EXPORT cudaError_t name params \
	{ \
		const struct driver *d = &driver[0]; \
		BEGIN(op); \
		FINISH(call); \
	} \
	EXPORT cudaError_t twin params \
	{ \
		const struct driver *d = &driver[1]; \
		BEGIN(op); \
		FINISH(call); \
	}

#define ON_STREAM(name, op, params, call) TWINS(name, name##_ptsz, op, params, call)
/* Functions that wait: their twin is called otherwise. */
#define ON_DEFAULT_STREAM(name, op, params, call) TWINS(name, name##_ptds, op, params, call)

/* runtime_launch.c */
CUfunction kernel_of(const void *function, cudaError_t *error);
cudaError_t symbol_address(CUdeviceptr *out, size_t *bytes, const void *symbol);

#endif
