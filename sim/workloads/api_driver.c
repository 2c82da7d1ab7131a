// SPDX-License-Identifier: Apache-2.0
/* The way of Triton: libcuda by dlopen, names by cuModuleGetFunction. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "workload.h"

static struct {
	int (*cuInit)(unsigned);
	int (*cuDeviceGet)(int *, int);
	int (*cuDeviceGetUuid_v2)(void *, int);
	int (*cuDevicePrimaryCtxRetain)(void **, int);
	int (*cuCtxSetCurrent)(void *);
	int (*cuCtxSynchronize)(void);
	int (*cuModuleLoadData)(void **, const void *);
	int (*cuModuleGetFunction)(void **, void *, const char *);
	int (*cuLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			      unsigned, void *, void **, void **);
	int (*cuMemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, void *);
	int (*cuMemcpyDtoHAsync_v2)(void *, uint64_t, size_t, void *);
	int (*cuMemcpyDtoDAsync_v2)(uint64_t, uint64_t, size_t, void *);
	int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t);
	int (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t);
	int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, void *);
	int (*cuMemAlloc_v2)(uint64_t *, size_t);
	int (*cuMemFree_v2)(uint64_t);
	int (*cuMemHostAlloc)(void **, size_t, unsigned);
	int (*cuMemFreeHost)(void *);
	int (*cuStreamCreate)(void **, unsigned);
	int (*cuStreamSynchronize)(void *);
} cu;

static void *functions[KERNELS];
static void *context;
static int wanted;

static int driver_open(int kernels)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "workload: %s; set LD_LIBRARY_PATH to the stand-in's directory\n",
			dlerror());
		exit(1);
	}
	wanted = kernels;
#define GET(name) \
	if (!(*(void **)&cu.name = dlsym(library, #name))) \
	return -1
	GET(cuInit);
	GET(cuDeviceGet);
	GET(cuDeviceGetUuid_v2);
	GET(cuDevicePrimaryCtxRetain);
	GET(cuCtxSetCurrent);
	GET(cuCtxSynchronize);
	GET(cuModuleLoadData);
	GET(cuModuleGetFunction);
	GET(cuLaunchKernel);
	GET(cuMemcpyHtoDAsync_v2);
	GET(cuMemcpyDtoHAsync_v2);
	GET(cuMemcpyDtoDAsync_v2);
	GET(cuMemcpyHtoD_v2);
	GET(cuMemcpyDtoH_v2);
	GET(cuMemsetD8Async);
	GET(cuMemAlloc_v2);
	GET(cuMemFree_v2);
	GET(cuMemHostAlloc);
	GET(cuMemFreeHost);
	GET(cuStreamCreate);
	GET(cuStreamSynchronize);
	return 0;
}

static int start_process(int ordinal)
{
	static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
	char uuid[16];
	void *module;
	int device, error = cu.cuInit(0);

	if (!error)
		error = cu.cuDeviceGet(&device, ordinal);
	if (!error)
		error = cu.cuDeviceGetUuid_v2(uuid, device);
	if (!error)
		error = cu.cuDevicePrimaryCtxRetain(&context, device);
	if (!error)
		error = cu.cuCtxSetCurrent(context);
	if (!error)
		error = cu.cuModuleLoadData(&module, ptx);
	for (int i = 0; !error && i < wanted; i++)
		error = cu.cuModuleGetFunction(&functions[i], module, kernel_names[i]);
	return error;
}

static int driver_start(int ordinal)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int error = 0;

	pthread_mutex_lock(&lock);
	if (!context)
		error = start_process(ordinal);
	pthread_mutex_unlock(&lock);
	return error ? error : cu.cuCtxSetCurrent(context);
}

static int driver_launch(int kernel, const struct shape *s, void *stream)
{
	return cu.cuLaunchKernel(functions[kernel], s->grid[0], s->grid[1], s->grid[2], s->block[0],
				 s->block[1], s->block[2], s->shared_bytes, stream, NULL, NULL);
}

static int driver_copy(enum direction direction, void *dst, const void *src, size_t bytes,
		       void *stream)
{
	if (direction == HTOD)
		return cu.cuMemcpyHtoDAsync_v2((uint64_t)dst, src, bytes, stream);
	if (direction == DTOH)
		return cu.cuMemcpyDtoHAsync_v2(dst, (uint64_t)src, bytes, stream);
	return cu.cuMemcpyDtoDAsync_v2((uint64_t)dst, (uint64_t)src, bytes, stream);
}

static int driver_copy_wait(enum direction direction, void *dst, const void *src, size_t bytes)
{
	return direction == HTOD ? cu.cuMemcpyHtoD_v2((uint64_t)dst, src, bytes)
				 : cu.cuMemcpyDtoH_v2(dst, (uint64_t)src, bytes);
}

static int driver_fill(void *dst, size_t bytes, void *stream)
{
	return cu.cuMemsetD8Async((uint64_t)dst, 0, bytes, stream);
}

static int driver_allocate(void **out, size_t bytes)
{
	return cu.cuMemAlloc_v2((uint64_t *)out, bytes);
}

static int driver_release(void *address)
{
	return cu.cuMemFree_v2((uint64_t)address);
}

static int driver_allocate_host(void **out, size_t bytes)
{
	return cu.cuMemHostAlloc(out, bytes, 0);
}

static int driver_release_host(void *address)
{
	return cu.cuMemFreeHost(address);
}

static int driver_stream_new(void **out)
{
	return cu.cuStreamCreate(out, 1);
}

static int driver_stream_wait(void *stream)
{
	return cu.cuStreamSynchronize(stream);
}

static int driver_device_wait(void)
{
	return cu.cuCtxSynchronize();
}

static int driver_finish(void)
{
	return 0;
}

const struct api driver_api = {
	"driver",
	driver_open,
	driver_start,
	driver_launch,
	driver_copy,
	driver_copy_wait,
	driver_fill,
	driver_allocate,
	driver_release,
	driver_allocate_host,
	driver_release_host,
	driver_stream_new,
	driver_stream_wait,
	driver_device_wait,
	driver_finish,
	{ "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2",
	  "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemsetD8Async", "cuMemAlloc_v2", "cuMemFree_v2",
	  "cuStreamSynchronize", "cuCtxSynchronize", "ncclAllReduce", "cuMemHostAlloc",
	  "cuMemFreeHost", "cuStreamCreate" },
};
