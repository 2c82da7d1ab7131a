// SPDX-License-Identifier: Apache-2.0
/*
 * What nvcc's code calls: registration at start, launches by the stub's address
 * (nvcc 12) or by a handle asked for with __cudaGetKernel (nvcc 13). Device code
 * is loaded when its first kernel is needed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

#define TABLE (1 << 16)

struct fatbin {
	const void *data;
	CUlibrary library;
};

/* A kernel or a variable, by its address in the program. */
struct symbol {
	const void *host;
	const char *name;
	struct fatbin *fatbin;
	size_t bytes;
	_Atomic(CUfunction) launched; /* what is passed to cuLaunchKernel */
	CUkernel kernel;
};

static _Atomic(struct symbol *) table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t slot_of(const void *host)
{
	return (uint32_t)(((uintptr_t)host >> 2) * 0x9E3779B97F4A7C15ULL >> 48);
}

static struct symbol *symbol_find(const void *host)
{
	for (uint32_t i = 0; i < TABLE; i++) {
		struct symbol *s = atomic_load_explicit(&table[(slot_of(host) + i) % TABLE],
							memory_order_acquire);

		if (!s || s->host == host)
			return s;
	}
	return NULL;
}

static void symbol_add(void **fatbin, const void *host, const char *name, size_t bytes)
{
	struct symbol *s = calloc(1, sizeof(*s));

	s->host = host;
	s->name = name;
	s->bytes = bytes;
	s->fatbin = (struct fatbin *)fatbin;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < TABLE; i++) {
		_Atomic(struct symbol *) *slot = &table[(slot_of(host) + i) % TABLE];
		struct symbol *there = atomic_load(slot);

		if (!there || there->host == host) {
			atomic_store_explicit(slot, s, memory_order_release);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

static CUresult symbol_load(struct symbol *s)
{
	if (s->fatbin->library)
		return CUDA_SUCCESS;
	return driver[0].cuLibraryLoadData(&s->fatbin->library, s->fatbin->data, NULL, NULL, 0,
					   NULL, NULL, 0);
}

static CUresult kernel_load(struct symbol *s)
{
	CUfunction launched;
	CUresult result;

	pthread_mutex_lock(&lock);
	result = symbol_load(s);
	if (result == CUDA_SUCCESS && !s->kernel)
		result = driver[0].cuLibraryGetKernel(&s->kernel, s->fatbin->library, s->name);
	launched = s->kernel;
	if (result == CUDA_SUCCESS && RUNTIME_MAJOR == 12)
		result = driver[0].cuKernelGetFunction(&launched, s->kernel);
	if (result == CUDA_SUCCESS)
		atomic_store(&s->launched, launched);
	pthread_mutex_unlock(&lock);
	return result;
}

/* The driver's handle for a stub's address; anything else is a handle already. */
CUfunction kernel_of(const void *function, cudaError_t *error)
{
	struct symbol *s = symbol_find(function);
	CUfunction launched;

	if (!s)
		return (CUfunction)(uintptr_t)function;
	launched = atomic_load_explicit(&s->launched, memory_order_acquire);
	if (launched)
		return launched;
	*error = kernel_load(s);
	return atomic_load(&s->launched);
}

cudaError_t symbol_address(CUdeviceptr *out, size_t *bytes, const void *host)
{
	struct symbol *s = symbol_find(host);
	CUresult result;

	if (!s)
		return cudaErrorInvalidSymbol;
	pthread_mutex_lock(&lock);
	result = symbol_load(s);
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		result = driver[0].cuLibraryGetGlobal(out, NULL, s->fatbin->library, s->name);
	*bytes = s->bytes;
	return result;
}

EXPORT void **__cudaRegisterFatBinary(void *data)
{
	struct fatbin *fatbin = calloc(1, sizeof(*fatbin));

	fatbin->data = data;
	return (void **)fatbin;
}

EXPORT void __cudaRegisterFatBinaryEnd(void **fatbin)
{
	LEAF();
	(void)fatbin;
}

EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	struct fatbin *fatbin = (struct fatbin *)handle;

	if (fatbin && fatbin->library)
		driver[0].cuLibraryUnload(fatbin->library);
	if (fatbin)
		fatbin->library = NULL;
}

EXPORT void __cudaRegisterFunction(void **fatbin, const char *host, char *device, const char *name,
				   int limit, void *tid, void *bid, dim3 *block, dim3 *grid,
				   int *warp)
{
	(void)name;
	(void)limit;
	(void)tid;
	(void)bid;
	(void)block;
	(void)grid;
	(void)warp;
	symbol_add(fatbin, host, device, 0);
}

EXPORT void __cudaRegisterVar(void **fatbin, char *host, char *address, const char *name, int ext,
			      size_t bytes, int constant, int global)
{
	(void)address;
	(void)ext;
	(void)constant;
	(void)global;
	symbol_add(fatbin, host, name, bytes);
}

EXPORT void __cudaRegisterManagedVar(void **fatbin, void **host, char *address, const char *name,
				     int ext, size_t bytes, int constant, int global)
{
	(void)address;
	(void)ext;
	(void)constant;
	(void)global;
	symbol_add(fatbin, host, name, bytes);
}

EXPORT char __cudaInitModule(void **fatbin)
{
	LEAF();
	(void)fatbin;
	return 1;
}

static __thread struct {
	int depth;
	struct {
		dim3 grid, block;
		size_t shared_bytes;
		void *stream;
	} call[4];
} configured;

EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
					    void *stream)
{
	int i = configured.depth;

	if (i == 4)
		return cudaErrorInvalidValue;
	configured.call[i].grid = grid;
	configured.call[i].block = block;
	configured.call[i].shared_bytes = shared_bytes;
	configured.call[i].stream = stream;
	configured.depth++;
	return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes,
					      void **stream)
{
	LEAF();
	int i = configured.depth - 1;

	if (i < 0)
		return cudaErrorInvalidValue;
	*grid = configured.call[i].grid;
	*block = configured.call[i].block;
	*shared_bytes = configured.call[i].shared_bytes;
	*stream = configured.call[i].stream;
	configured.depth--;
	return 0;
}

static cudaError_t get_kernel(CUkernel *out, const void *host)
{
	struct symbol *s = symbol_find(host);
	CUresult result = CUDA_SUCCESS;

	if (!s)
		return cudaErrorInvalidDeviceFunction;
	if (!s->kernel)
		result = kernel_load(s);
	*out = s->kernel;
	return result;
}

EXPORT cudaError_t __cudaGetKernel(CUkernel *out, const void *host)
{
	cudaError_t ready;

	*out = (CUkernel)(uintptr_t)host; /* what is left there when there is no driver */
	ready = runtime_begin(__func__, NULL);
	FINISH(get_kernel(out, host));
}

EXPORT cudaError_t cudaGetKernel(CUkernel *out, const void *host)
{
	BEGIN(NULL);
	FINISH(get_kernel(out, host));
}

static cudaError_t launch(const struct driver *d, const cudaLaunchConfig_t *c, const void *f,
			  void **args)
{
	cudaError_t error = 0;
	CUfunction function = kernel_of(f, &error);

	if (error)
		return error;
	return d->cuLaunchKernel(function, c->grid.x, c->grid.y, c->grid.z, c->block.x, c->block.y,
				 c->block.z, (unsigned)c->shared_bytes, c->stream, args, NULL);
}

#define LAUNCH_PARAMS \
	(const void *f, dim3 grid, dim3 block, void **args, size_t shared_bytes, CUstream stream)

ON_STREAM(cudaLaunchKernel, "launch", LAUNCH_PARAMS,
	  launch(d, &(cudaLaunchConfig_t){ grid, block, shared_bytes, stream, NULL, 0 }, f, args))

/* As in the real library, these two jump to the function they stand for. */
#define JUMP __attribute__((optimize("optimize-sibling-calls", "no-omit-frame-pointer")))

EXPORT JUMP cudaError_t __cudaLaunchKernel LAUNCH_PARAMS
{
	LEAF();
	return cudaLaunchKernel(f, grid, block, args, shared_bytes, stream);
}

EXPORT JUMP cudaError_t __cudaLaunchKernel_ptsz LAUNCH_PARAMS
{
	LEAF();
	return cudaLaunchKernel_ptsz(f, grid, block, args, shared_bytes, stream);
}

static cudaError_t launch_ex(const struct driver *d, const cudaLaunchConfig_t *c, const void *f,
			     void **args)
{
	cudaError_t error = 0;
	CUfunction function = kernel_of(f, &error);
	CUlaunchConfig config = { { c->grid.x, c->grid.y, c->grid.z },
				  { c->block.x, c->block.y, c->block.z },
				  (unsigned)c->shared_bytes,
				  c->stream,
				  c->attributes,
				  c->attribute_count };

	return error ? error : d->cuLaunchKernelEx(&config, function, args, NULL);
}

ON_STREAM(cudaLaunchKernelExC, "launch",
	  (const cudaLaunchConfig_t *config, const void *f, void **args),
	  launch_ex(d, config, f, args))

static cudaError_t launch_cooperative(const struct driver *d, const cudaLaunchConfig_t *c,
				      const void *f, void **args)
{
	cudaError_t error = 0;
	CUfunction function = kernel_of(f, &error);

	if (error)
		return error;
	return d->cuLaunchCooperativeKernel(function, c->grid.x, c->grid.y, c->grid.z, c->block.x,
					    c->block.y, c->block.z, (unsigned)c->shared_bytes,
					    c->stream, args);
}

ON_STREAM(cudaLaunchCooperativeKernel, "launch", LAUNCH_PARAMS,
	  launch_cooperative(d, &(cudaLaunchConfig_t){ grid, block, shared_bytes, stream, NULL, 0 },
			     f, args))

EXPORT cudaError_t cudaFuncGetName(const char **name, const void *function)
{
	struct symbol *s = symbol_find(function);
	BEGIN(NULL);

	if (s)
		*name = s->name;
	FINISH(s ? 0 : driver[0].cuKernelGetName(name, (CUkernel)(uintptr_t)function));
}

EXPORT cudaError_t cudaGetFuncBySymbol(CUfunction *out, const void *symbol)
{
	cudaError_t error = 0;
	BEGIN(NULL);

	if (!ready)
		*out = kernel_of(symbol, &error);
	FINISH(error);
}

EXPORT cudaError_t cudaFuncGetAttributes(void *attributes, const void *function)
{
	static const struct {
		size_t shared, constant, local;
		int threads, registers, ptx, binary;
	} values = { 0, 0, 0, 1024, 32, 90, 90 };

	(void)function;
	memcpy(attributes, &values, sizeof(values));
	return runtime_load();
}

EXPORT cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value)
{
	(void)function;
	(void)attribute;
	(void)value;
	return runtime_load();
}

EXPORT cudaError_t cudaFuncSetCacheConfig(const void *function, int config)
{
	(void)function;
	(void)config;
	return runtime_load();
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
								 int block_size, size_t shared)
{
	(void)function;
	(void)shared;
	*blocks = block_size > 0 ? 2048 / block_size : 0;
	return runtime_load();
}

EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *blocks, const void *function, int block_size, size_t shared, unsigned flags)
{
	(void)function;
	(void)shared;
	(void)flags;
	*blocks = block_size > 0 ? 2048 / block_size : 0;
	return runtime_load();
}
