// SPDX-License-Identifier: Apache-2.0
/* Finding the driver, devices, the primary context, errors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

struct driver driver[2];
const struct private_table *private_table;

static __thread struct {
	int device, ready_device, error;
} mine = { 0, -1, 0 };

static cudaError_t load_error;
static CUcontext primary[64];

static void load_driver(void)
{
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library)
		*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	load_error = get ? 0 : cudaErrorInsufficientDriver;
	if (!get)
		return;
	for (int i = 0; i < 2; i++) {
#define GET(name, version, params) get(#name, (void **)&driver[i].name, version, i ? 2 : 0, NULL);
		DRIVER_FUNCTIONS(GET)
	}
	if (driver[0].cuGetExportTable)
		driver[0].cuGetExportTable((const void **)&private_table,
					   (const CUuuid *)PRIVATE_TABLE_ID);
	if (!private_table)
		load_error =
			cudaErrorInsufficientDriver; /* not the stand-in: nothing we could drive */
}

cudaError_t runtime_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load_driver);
	return load_error;
}

/*
 * The real runtime looks at every device before it uses the first: a program that never asks which
 * GPU it runs on has asked the driver all the same.
 */
static CUresult look_at_devices(void)
{
	char name[256];
	CUuuid uuid;
	CUdevice device;
	size_t bytes;
	int count = 0;
	CUresult result = driver[0].cuDeviceGetCount(&count);

	for (int i = 0; result == CUDA_SUCCESS && i < count; i++) {
		result = driver[0].cuDeviceGet(&device, i);
		if (result == CUDA_SUCCESS)
			result = driver[0].cuDeviceGetName(name, sizeof(name), device);
		if (result == CUDA_SUCCESS)
			result = driver[0].cuDeviceTotalMem(&bytes, device);
		if (result == CUDA_SUCCESS)
			result = driver[0].cuDeviceGetUuid(&uuid, device);
	}
	return result;
}

static cudaError_t initialise(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static int looked;
	int device = mine.device;
	CUresult result = CUDA_SUCCESS;
	CUdevice handle;

	if (device < 0 || device >= 64)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&lock);
	if (!primary[device]) {
		result = driver[0].cuInit(0);
		if (result == CUDA_SUCCESS && !looked) {
			result = look_at_devices();
			looked = result == CUDA_SUCCESS;
		}
		if (result == CUDA_SUCCESS)
			result = driver[0].cuDeviceGet(&handle, device);
		if (result == CUDA_SUCCESS)
			result = driver[0].cuDevicePrimaryCtxRetain(&primary[device], handle);
	}
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		result = driver[0].cuCtxSetCurrent(primary[device]);
	if (result == CUDA_SUCCESS)
		mine.ready_device = device;
	return result;
}

cudaError_t runtime_begin(const char *api, const char *op)
{
	cudaError_t error = runtime_load();

	if (error)
		return error;
	private_table->outer_begin(api, op);
	return __builtin_expect(mine.ready_device == mine.device, 1) ? 0 : initialise();
}

cudaError_t runtime_end(cudaError_t result)
{
	if (__builtin_expect(result != 0, 0) && result != CUDA_ERROR_NOT_READY)
		mine.error = result;
	return private_table ? private_table->outer_end(result) : result;
}

/* What needs the driver, but no context. */
static cudaError_t driver_ready(void)
{
	cudaError_t error = runtime_load();

	return error ? error : driver[0].cuInit(0);
}

EXPORT cudaError_t cudaGetLastError(void)
{
	LEAF();
	cudaError_t error = mine.error;

	mine.error = 0;
	return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
	LEAF();
	return mine.error;
}

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	const char *name = NULL;

	if (error == cudaErrorInsufficientDriver)
		return "cudaErrorInsufficientDriver";
	if (error == 0)
		return "cudaSuccess";
	if (runtime_load() == 0)
		driver[0].cuGetErrorName(error, &name);
	return name ? name : "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = NULL;

	if (error == cudaErrorInsufficientDriver)
		return "CUDA driver version is insufficient for CUDA runtime version";
	if (error == 0)
		return "no error";
	if (runtime_load() == 0)
		driver[0].cuGetErrorString(error, &text);
	return text ? text : "unrecognized error code";
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
	LEAF();
	*version = RUNTIME_MAJOR * 1000;
	return 0;
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 0;
	return runtime_load() ? 0 : driver[0].cuDriverGetVersion(version);
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t error = driver_ready();

	*count = 0;
	return runtime_end(error ? error : driver[0].cuDeviceGetCount(count));
}

static cudaError_t set_device(const char *api, int device)
{
	cudaError_t ready;
	int count = 0;

	if (driver_ready() == 0)
		driver[0].cuDeviceGetCount(&count);
	if (device < 0 || device >= count)
		return runtime_end(CUDA_ERROR_INVALID_DEVICE);
	mine.device = device;
	ready = runtime_begin(api, "context");
	return runtime_end(ready);
}

EXPORT cudaError_t cudaSetDevice(int device)
{
	return set_device(__func__, device);
}

EXPORT cudaError_t cudaInitDevice(int device, unsigned flags, unsigned more)
{
	(void)flags;
	(void)more;
	return set_device(__func__, device);
}

EXPORT cudaError_t cudaGetDevice(int *device)
{
	*device = mine.device;
	return runtime_load();
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned flags)
{
	(void)flags;
	return runtime_load();
}

EXPORT cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
	*flags = 0;
	return runtime_load();
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, int which, int device)
{
	cudaError_t error = driver_ready();

	return error ? error : driver[0].cuDeviceGetAttribute(value, which, device);
}

EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	cudaError_t error = driver_ready();

	return error ? error : driver[0].cuDeviceGetPCIBusId(id, length, device);
}

EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	cudaError_t error = driver_ready();

	return error ? error : driver[0].cuDeviceCanAccessPeer(can, device, peer);
}

EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	(void)peer;
	(void)flags;
	return runtime_load();
}

EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	BEGIN(NULL);
	FINISH(driver[0].cuCtxGetStreamPriorityRange(least, greatest));
}

/* Offsets in cudaDeviceProp; version 13 dropped some fields of version 12. */
enum {
	PROP_BYTES = RUNTIME_MAJOR == 12 ? 1032 : 1008,
	PROP_UUID = 256,
	PROP_MEMORY = 288,
	PROP_SHARED = 296,
	PROP_WARP = 308,
	PROP_THREADS = 320,
	PROP_THREADS_DIM = 324,
	PROP_GRID = 336,
	PROP_MAJOR = 360,
	PROP_PROCESSORS = RUNTIME_MAJOR == 12 ? 388 : 384,
};

static void put(char *prop, int offset, int value)
{
	memcpy(prop + offset, &value, sizeof(value));
}

static cudaError_t properties(char *prop, int device)
{
	cudaError_t error = driver_ready();
	size_t bytes = 0, shared = 49152;

	if (!error)
		error = driver[0].cuDeviceTotalMem(&bytes, device);
	if (error)
		return error;
	memset(prop, 0, PROP_BYTES);
	driver[0].cuDeviceGetName(prop, 256, device);
	driver[0].cuDeviceGetUuid((CUuuid *)(prop + PROP_UUID), device);
	memcpy(prop + PROP_MEMORY, &bytes, sizeof(bytes));
	memcpy(prop + PROP_SHARED, &shared, sizeof(shared));
	put(prop, PROP_WARP, 32);
	put(prop, PROP_THREADS, 1024);
	for (int i = 0; i < 3; i++) {
		put(prop, PROP_THREADS_DIM + 4 * i, i == 2 ? 64 : 1024);
		put(prop, PROP_GRID + 4 * i, i ? 65535 : 2147483647);
	}
	put(prop, PROP_MAJOR, 9);
	put(prop, PROP_PROCESSORS, 108);
	return 0;
}

EXPORT cudaError_t cudaGetDeviceProperties(char *prop, int device)
{
	return runtime_end(properties(prop, device));
}

#if RUNTIME_MAJOR == 12
EXPORT cudaError_t cudaGetDeviceProperties_v2(char *prop, int device)
{
	return runtime_end(properties(prop, device));
}
#endif

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
	BEGIN("sync");
	FINISH(driver[0].cuCtxSynchronize());
}

EXPORT cudaError_t cudaDeviceReset(void)
{
	BEGIN("sync");
	FINISH(driver[0].cuCtxSynchronize());
}

#if RUNTIME_MAJOR == 12
EXPORT cudaError_t cudaThreadSynchronize(void)
{
	BEGIN("sync");
	FINISH(driver[0].cuCtxSynchronize());
}
#endif
