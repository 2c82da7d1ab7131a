// SPDX-License-Identifier: Apache-2.0
/* How NCCL finds the driver: as the runtime does, through cuGetProcAddress. */
#include <dlfcn.h>
#include <pthread.h>

#include "nccl.h"

struct nccl_driver cu;
const struct private_table *private_table;
static ncclResult_t load_error;

static void load(void)
{
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library)
		*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	load_error = ncclUnhandledCudaError;
	if (!get)
		return;
#define GET(name) get(#name, (void **)&cu.name, 12000, 0, NULL)
	GET(cuInit);
	GET(cuCtxGetCurrent);
	GET(cuCtxSetCurrent);
	GET(cuCtxGetDevice);
	GET(cuDevicePrimaryCtxRetain);
	GET(cuLibraryLoadData);
	GET(cuLibraryGetKernel);
	GET(cuKernelGetFunction);
	GET(cuLaunchKernelEx);
	GET(cuMemCreate);
	GET(cuMemAlloc);
	GET(cuMemFree);
	GET(cuGetExportTable);
	if (cu.cuGetExportTable)
		cu.cuGetExportTable((const void **)&private_table,
				    (const CUuuid *)PRIVATE_TABLE_ID);
	if (private_table && cu.cuInit(0) == CUDA_SUCCESS)
		load_error = ncclSuccess;
}

ncclResult_t driver_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return load_error;
}
