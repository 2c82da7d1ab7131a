// SPDX-License-Identifier: Apache-2.0
/* Libraries of kernels, entry points of the driver, the profiler's switches. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "runtime.h"

EXPORT cudaError_t cudaLibraryLoadData(CUlibrary *out, const void *code, int *jit,
				       void **jit_values, unsigned jits, int *options,
				       void **values, unsigned n)
{
	BEGIN("module");
	FINISH(driver[0].cuLibraryLoadData(out, code, jit, jit_values, jits, options, values, n));
}

EXPORT cudaError_t cudaLibraryUnload(CUlibrary library)
{
	BEGIN("module");
	FINISH(driver[0].cuLibraryUnload(library));
}

EXPORT cudaError_t cudaLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
	BEGIN("name");
	FINISH(driver[0].cuLibraryGetKernel(out, library, name));
}

EXPORT cudaError_t cudaLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
	BEGIN(NULL);
	FINISH(driver[0].cuLibraryGetKernelCount(count, library));
}

EXPORT cudaError_t cudaLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary library)
{
	BEGIN("name");
	FINISH(driver[0].cuLibraryEnumerateKernels(out, n, library));
}

static cudaError_t entry_point(const char *name, void **out, int version, uint64_t flags,
			       int *status)
{
	CUresult (*get)(const char *, void **, int, uint64_t, int *) = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (library)
		*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	return get ? get(name, out, version, flags, status) : cudaErrorInsufficientDriver;
}

#define ENTRY(suffix, own) \
	EXPORT cudaError_t cudaGetDriverEntryPoint##suffix(const char *name, void **out, \
							   unsigned long long flags, int *status) \
	{ \
		return entry_point(name, out, RUNTIME_MAJOR * 1000, flags ? flags : own, status); \
	} \
	EXPORT cudaError_t cudaGetDriverEntryPointByVersion##suffix( \
		const char *name, void **out, unsigned version, unsigned long long flags, \
		int *status) \
	{ \
		return entry_point(name, out, (int)version, flags ? flags : own, status); \
	}

ENTRY(, 0)
ENTRY(_ptsz, 2)

EXPORT cudaError_t cudaProfilerStart(void)
{
	LEAF();
	return 0;
}

EXPORT cudaError_t cudaProfilerStop(void)
{
	LEAF();
	return 0;
}
