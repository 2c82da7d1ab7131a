// SPDX-License-Identifier: Apache-2.0
/*
 * The way of code compiled by nvcc: kernels registered when the program starts,
 * then launched by the stub's address (12) or by a handle (13).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "workload.h"

typedef struct {
	uint32_t x, y, z;
} dim3;

static struct {
	void **(*__cudaRegisterFatBinary)(void *);
	void (*__cudaRegisterFatBinaryEnd)(void **);
	void (*__cudaUnregisterFatBinary)(void **);
	void (*__cudaRegisterFunction)(void **, const char *, char *, const char *, int, void *,
				       void *, void *, void *, void *);
	int (*__cudaGetKernel)(void **, const void *);
	int (*__cudaLaunchKernel)(void *, dim3, dim3, void **, size_t, void *);
	int (*cudaLaunchKernel)(const void *, dim3, dim3, void **, size_t, void *);
	int (*cudaSetDevice)(int);
	int (*cudaMemcpy)(void *, const void *, size_t, int);
	int (*cudaMemcpyAsync)(void *, const void *, size_t, int, void *);
	int (*cudaMemsetAsync)(void *, int, size_t, void *);
	int (*cudaMalloc)(void **, size_t);
	int (*cudaFree)(void *);
	int (*cudaMallocHost)(void **, size_t);
	int (*cudaFreeHost)(void *);
	int (*cudaStreamCreateWithFlags)(void **, unsigned);
	int (*cudaStreamSynchronize)(void *);
	int (*cudaDeviceSynchronize)(void);
} cuda;

static const struct {
	int magic, version;
	const void *data;
	void *unused;
} wrapper = { 0x466243b1, 1, "no device code here", NULL };

static void **fatbin;
static void *handles[KERNELS];

static int runtime_open(const char *name, int kernels)
{
	void *library = dlopen(name, RTLD_NOW);

	if (!library) {
		fprintf(stderr, "workload: %s; set LD_LIBRARY_PATH to the stand-in's directory\n",
			dlerror());
		exit(1);
	}
#define GET(name) \
	if (!(*(void **)&cuda.name = dlsym(library, #name))) \
	return -1
	GET(__cudaRegisterFatBinary);
	GET(__cudaRegisterFatBinaryEnd);
	GET(__cudaUnregisterFatBinary);
	GET(__cudaRegisterFunction);
	GET(__cudaGetKernel);
	GET(__cudaLaunchKernel);
	GET(cudaLaunchKernel);
	GET(cudaSetDevice);
	GET(cudaMemcpy);
	GET(cudaMemcpyAsync);
	GET(cudaMemsetAsync);
	GET(cudaMalloc);
	GET(cudaFree);
	GET(cudaMallocHost);
	GET(cudaFreeHost);
	GET(cudaStreamCreateWithFlags);
	GET(cudaStreamSynchronize);
	GET(cudaDeviceSynchronize);
	fatbin = cuda.__cudaRegisterFatBinary((void *)&wrapper);
	for (int i = 0; i < kernels; i++)
		cuda.__cudaRegisterFunction(fatbin, (const char *)(uintptr_t)kernel_stubs[i],
					    (char *)(uintptr_t)kernel_names[i], kernel_names[i], -1,
					    NULL, NULL, NULL, NULL, NULL);
	cuda.__cudaRegisterFatBinaryEnd(fatbin);
	return 0;
}

static int runtime12_open(int kernels)
{
	return runtime_open("libcudart.so.12", kernels);
}

static int runtime13_open(int kernels)
{
	return runtime_open("libcudart.so.13", kernels);
}

static int runtime_start(int device)
{
	return cuda.cudaSetDevice(device);
}

static int runtime12_launch(int kernel, const struct shape *s, void *stream)
{
	dim3 grid = { s->grid[0], s->grid[1], s->grid[2] };
	dim3 block = { s->block[0], s->block[1], s->block[2] };

	return cuda.cudaLaunchKernel((const void *)(uintptr_t)kernel_stubs[kernel], grid, block,
				     NULL, s->shared_bytes, stream);
}

static int runtime13_launch(int kernel, const struct shape *s, void *stream)
{
	dim3 grid = { s->grid[0], s->grid[1], s->grid[2] };
	dim3 block = { s->block[0], s->block[1], s->block[2] };

	if (!handles[kernel]) {
		void *handle;
		int error = cuda.__cudaGetKernel(&handle,
						 (const void *)(uintptr_t)kernel_stubs[kernel]);

		if (error)
			return error;
		handles[kernel] = handle;
	}
	return cuda.__cudaLaunchKernel(handles[kernel], grid, block, NULL, s->shared_bytes, stream);
}

static const int kinds[DIRECTIONS] = { 1, 2, 3 };

static int runtime_copy(enum direction direction, void *dst, const void *src, size_t bytes,
			void *stream)
{
	return cuda.cudaMemcpyAsync(dst, src, bytes, kinds[direction], stream);
}

static int runtime_copy_wait(enum direction direction, void *dst, const void *src, size_t bytes)
{
	return cuda.cudaMemcpy(dst, src, bytes, kinds[direction]);
}

static int runtime_fill(void *dst, size_t bytes, void *stream)
{
	return cuda.cudaMemsetAsync(dst, 0, bytes, stream);
}

static int runtime_allocate(void **out, size_t bytes)
{
	return cuda.cudaMalloc(out, bytes);
}

static int runtime_release(void *address)
{
	return cuda.cudaFree(address);
}

static int runtime_allocate_host(void **out, size_t bytes)
{
	return cuda.cudaMallocHost(out, bytes);
}

static int runtime_release_host(void *address)
{
	return cuda.cudaFreeHost(address);
}

static int runtime_stream_new(void **out)
{
	return cuda.cudaStreamCreateWithFlags(out, 1);
}

static int runtime_stream_wait(void *stream)
{
	return cuda.cudaStreamSynchronize(stream);
}

static int runtime_device_wait(void)
{
	return cuda.cudaDeviceSynchronize();
}

static int runtime_finish(void)
{
	cuda.__cudaUnregisterFatBinary(fatbin);
	return 0;
}

#define RUNTIME(major) \
	const struct api runtime##major##_api = { \
		"runtime" #major, \
		runtime##major##_open, \
		runtime_start, \
		runtime##major##_launch, \
		runtime_copy, \
		runtime_copy_wait, \
		runtime_fill, \
		runtime_allocate, \
		runtime_release, \
		runtime_allocate_host, \
		runtime_release_host, \
		runtime_stream_new, \
		runtime_stream_wait, \
		runtime_device_wait, \
		runtime_finish, \
		{ "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemcpyAsync", "cudaMemcpyAsync", \
		  "cudaMemcpy", "cudaMemcpy", "cudaMemsetAsync", "cudaMalloc", "cudaFree", \
		  "cudaStreamSynchronize", "cudaDeviceSynchronize", "ncclAllReduce", \
		  "cudaMallocHost", "cudaFreeHost", "cudaStreamCreateWithFlags" }, \
	}

RUNTIME(12);
RUNTIME(13);
