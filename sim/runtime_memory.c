// SPDX-License-Identifier: Apache-2.0
/* Memory: allocation, copies and memsets of one dimension. */
#include <string.h>

#include "runtime.h"

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

EXPORT cudaError_t cudaMalloc(void **out, size_t bytes)
{
	BEGIN("alloc");
	FINISH(driver[0].cuMemAlloc((CUdeviceptr *)out, bytes));
}

EXPORT cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
	BEGIN("alloc");
	FINISH(driver[0].cuMemAllocManaged((CUdeviceptr *)out, bytes, flags));
}

EXPORT cudaError_t cudaMallocHost(void **out, size_t bytes)
{
	BEGIN("alloc");
	FINISH(driver[0].cuMemAllocHost(out, bytes));
}

EXPORT cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
	BEGIN("alloc");
	FINISH(driver[0].cuMemHostAlloc(out, bytes, flags));
}

ON_STREAM(cudaMallocAsync, "alloc", (void **out, size_t bytes, CUstream stream),
	  d->cuMemAllocAsync((CUdeviceptr *)out, bytes, stream))

EXPORT cudaError_t cudaFree(void *address)
{
	BEGIN(address ? "free" : NULL);
	FINISH(address ? driver[0].cuMemFree((CUdeviceptr)address) : 0);
}

EXPORT cudaError_t cudaFreeHost(void *address)
{
	BEGIN(address ? "free" : NULL);
	FINISH(address ? driver[0].cuMemFreeHost(address) : 0);
}

ON_STREAM(cudaFreeAsync, "free", (void *address, CUstream stream),
	  d->cuMemFreeAsync((CUdeviceptr)address, stream))

EXPORT cudaError_t cudaHostRegister(void *address, size_t bytes, unsigned flags)
{
	BEGIN("register");
	FINISH(driver[0].cuMemHostRegister(address, bytes, flags));
}

EXPORT cudaError_t cudaHostUnregister(void *address)
{
	BEGIN("register");
	FINISH(driver[0].cuMemHostUnregister(address));
}

EXPORT cudaError_t cudaHostGetDevicePointer(void **out, void *address, unsigned flags)
{
	BEGIN(NULL);
	FINISH(driver[0].cuMemHostGetDevicePointer((CUdeviceptr *)out, address, flags));
}

EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	BEGIN(NULL);
	FINISH(driver[0].cuMemGetInfo(available, total));
}

static cudaError_t copy(const struct driver *d, void *dst, const void *src, size_t bytes, int kind)
{
	switch (kind) {
	case HOST_TO_DEVICE: return d->cuMemcpyHtoD((CUdeviceptr)dst, src, bytes);
	case DEVICE_TO_HOST: return d->cuMemcpyDtoH(dst, (CUdeviceptr)src, bytes);
	case DEVICE_TO_DEVICE: return d->cuMemcpyDtoD((CUdeviceptr)dst, (CUdeviceptr)src, bytes);
	case HOST_TO_HOST: memmove(dst, src, bytes); return 0;
	case BY_ADDRESS: return d->cuMemcpy((CUdeviceptr)dst, (CUdeviceptr)src, bytes);
	default: return 21; /* invalid copy direction */
	}
}

ON_DEFAULT_STREAM(cudaMemcpy, "memcpy", (void *dst, const void *src, size_t bytes, int kind),
		  copy(d, dst, src, bytes, kind))

static cudaError_t copy_async(const struct driver *d, void *dst, const void *src, size_t bytes,
			      int kind, CUstream stream)
{
	switch (kind) {
	case HOST_TO_DEVICE: return d->cuMemcpyHtoDAsync((CUdeviceptr)dst, src, bytes, stream);
	case DEVICE_TO_HOST: return d->cuMemcpyDtoHAsync(dst, (CUdeviceptr)src, bytes, stream);
	case DEVICE_TO_DEVICE:
		return d->cuMemcpyDtoDAsync((CUdeviceptr)dst, (CUdeviceptr)src, bytes, stream);
	case HOST_TO_HOST:
	case BY_ADDRESS: return d->cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, bytes, stream);
	default: return 21;
	}
}

ON_STREAM(cudaMemcpyAsync, "memcpy",
	  (void *dst, const void *src, size_t bytes, int kind, CUstream stream),
	  copy_async(d, dst, src, bytes, kind, stream))

ON_DEFAULT_STREAM(cudaMemset, "memset", (void *dst, int value, size_t bytes),
		  d->cuMemsetD8((CUdeviceptr)dst, (unsigned char)value, bytes))

ON_STREAM(cudaMemsetAsync, "memset", (void *dst, int value, size_t bytes, CUstream stream),
	  d->cuMemsetD8Async((CUdeviceptr)dst, (unsigned char)value, bytes, stream))

EXPORT cudaError_t cudaGetSymbolAddress(void **out, const void *symbol)
{
	size_t bytes;
	BEGIN(NULL);

	FINISH(symbol_address((CUdeviceptr *)out, &bytes, symbol));
}

EXPORT cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol)
{
	CUdeviceptr address;
	BEGIN(NULL);

	FINISH(symbol_address(&address, bytes, symbol));
}

static cudaError_t to_symbol(const struct driver *d, const void *symbol, const void *src,
			     size_t bytes, size_t offset, int kind)
{
	CUdeviceptr address = 0;
	size_t size;
	cudaError_t error = symbol_address(&address, &size, symbol);

	return error ? error : copy(d, (void *)(address + offset), src, bytes, kind);
}

ON_DEFAULT_STREAM(cudaMemcpyToSymbol, "memcpy",
		  (const void *symbol, const void *src, size_t bytes, size_t offset, int kind),
		  to_symbol(d, symbol, src, bytes, offset, kind))

static cudaError_t from_symbol(const struct driver *d, void *dst, const void *symbol, size_t bytes,
			       size_t offset, int kind)
{
	CUdeviceptr address = 0;
	size_t size;
	cudaError_t error = symbol_address(&address, &size, symbol);

	return error ? error : copy(d, dst, (void *)(address + offset), bytes, kind);
}

ON_DEFAULT_STREAM(cudaMemcpyFromSymbol, "memcpy",
		  (void *dst, const void *symbol, size_t bytes, size_t offset, int kind),
		  from_symbol(d, dst, symbol, bytes, offset, kind))

EXPORT cudaError_t cudaPointerGetAttributes(void *attributes, const void *address)
{
	struct {
		int type, device;
		const void *device_pointer, *host_pointer;
	} values = { 0, 0, NULL, NULL };
	uint32_t type = 0, managed = 0;
	BEGIN(NULL);

	if (!ready && driver[0].cuPointerGetAttribute(&type, 2, (CUdeviceptr)address) == 0) {
		driver[0].cuPointerGetAttribute(&managed, 8, (CUdeviceptr)address);
		values.type = managed ? 3 : (int)type; /* managed, else host or device */
		values.device_pointer = address;
		values.host_pointer = type == MEMORY_HOST || managed ? address : NULL;
	}
	memcpy(attributes, &values, sizeof(values));
	FINISH(0);
}
