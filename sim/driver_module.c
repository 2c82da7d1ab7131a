// SPDX-License-Identifier: Apache-2.0
/* Modules, libraries, and the names of what is in them: any name is found. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define VARIABLE_BYTES (1 << 16)

static void note(struct truth *rec, const void *handle, const char *name)
{
	if (rec) {
		rec->handle = (uint64_t)handle;
		rec->kernel = name ? intern(name) : NULL;
		rec->has |= HAS_HANDLE;
	}
}

/*
 * COTENANT_SIM_KERNEL_NS is "part=ns,part=ns,...": the first part that occurs in
 * the kernel's (mangled) name decides, and "*" occurs in all.
 */
double function_time(const char *name)
{
	const char *at = getenv("COTENANT_SIM_KERNEL_NS");

	while (at && *at) {
		size_t length = strcspn(at, "=,");
		char part[512];

		if (at[length] == '=' && length < sizeof(part)) {
			memcpy(part, at, length);
			part[length] = 0;
			if (strcmp(part, "*") == 0 || strstr(name, part))
				return strtod(at + length + 1, NULL);
		}
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return -1;
}

static CUresult load(struct truth *rec, struct module **out, const void *image, bool library)
{
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!library && !context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out || !image)
		return CUDA_ERROR_INVALID_VALUE;
	*out = arena_new(&modules);
	if (!*out)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*out)->context = context_current();
	(*out)->library = library;
	note(rec, *out, NULL);
	return CUDA_SUCCESS;
}

static CUresult unload(struct module *module)
{
	struct function *f, *next;

	if (!arena_holds(&modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	for (f = module->first; f; f = next) {
		next = f->next_in_module;
		if (f->twin)
			arena_free(&functions, f->twin);
		arena_free(&functions, f);
	}
	arena_free(&modules, module);
	return CUDA_SUCCESS;
}

static struct function *function_new(struct module *module, const char *name)
{
	struct function *f = arena_new(&functions);

	if (!f)
		return NULL;
	f->name = intern(name);
	f->module = module;
	f->kernel_ns = function_time(f->name);
	return f;
}

static CUresult find(struct truth *rec, struct function **out, struct module *module,
		     const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct function *f;

	if (!arena_holds(&modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (strncmp(name, "missing", 7) == 0)
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&lock);
	for (f = module->first; f && strcmp(f->name, name) != 0; f = f->next_in_module)
		;
	if (!f && (f = function_new(module, name))) {
		f->next_in_module = module->first;
		module->first = f;
	}
	pthread_mutex_unlock(&lock);
	*out = f;
	note(rec, f, name);
	return f ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path)
{
	CALL("module");
	DONE(load(rec, out, path, false));
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
	CALL("module");
	DONE(load(rec, out, image, false));
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
				   void **values)
{
	CALL("module");
	(void)n;
	(void)options;
	(void)values;
	DONE(load(rec, out, image, false));
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	CALL("module");
	DONE(load(rec, out, image, false));
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
	CALL("module");
	note(rec, module, NULL);
	DONE(unload(module));
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
	CALL("name");
	DONE(find(rec, out, module, name));
}

EXPORT CUresult cuModuleGetLoadingMode(int *mode)
{
	LEAF();
	*mode = 2; /* lazy */
	return CUDA_SUCCESS;
}

/* A variable of a module: room for it is made when it is first asked for. */
static CUresult global(CUdeviceptr *out, size_t *bytes, const struct module *module,
		       const char *name)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct variable {
		struct variable *next;
		const struct module *module;
		const char *name;
		CUdeviceptr address;
	} *variables;
	struct variable *v;

	if (!arena_holds(&modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	name = intern(name);
	pthread_mutex_lock(&lock);
	for (v = variables; v && (v->module != module || v->name != name); v = v->next)
		;
	if (!v && (v = calloc(1, sizeof(*v)))) {
		*v = (struct variable){ variables, module, name, memory_reserve(VARIABLE_BYTES) };
		variables = v;
	}
	pthread_mutex_unlock(&lock);
	if (out)
		*out = v ? v->address : 0;
	if (bytes)
		*bytes = VARIABLE_BYTES;
	return v && v->address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module,
				     const char *name)
{
	CALL("name");
	note(rec, module, name);
	DONE(global(out, bytes, module, name));
}

EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *code, int *jit, void **jit_values,
				  unsigned jits, int *options, void **values, unsigned n)
{
	CALL("module");
	(void)jit;
	(void)jit_values;
	(void)jits;
	(void)options;
	(void)values;
	(void)n;
	DONE(load(rec, out, code, true));
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, int *jit, void **jit_values,
				      unsigned jits, int *options, void **values, unsigned n)
{
	CALL("module");
	(void)jit;
	(void)jit_values;
	(void)jits;
	(void)options;
	(void)values;
	(void)n;
	DONE(load(rec, out, path, true));
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
	CALL("module");
	note(rec, library, NULL);
	DONE(unload(library));
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
	CALL("name");
	DONE(find(rec, out, library, name));
}

EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
	CALL("module");
	if (!arena_holds(&modules, library))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	*out = library;
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *out, size_t *bytes, CUlibrary library,
				   const char *name)
{
	CALL("name");
	note(rec, library, name);
	DONE(global(out, bytes, library, name));
}

static CUresult count(unsigned *out, const struct module *module)
{
	if (!arena_holds(&modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = 0;
	for (struct function *f = module->first; f; f = f->next_in_module)
		++*out;
	return CUDA_SUCCESS;
}

static CUresult enumerate(struct function **out, unsigned most, const struct module *module)
{
	unsigned n = 0;

	if (!arena_holds(&modules, module))
		return CUDA_ERROR_INVALID_HANDLE;
	for (struct function *f = module->first; f && n < most; f = f->next_in_module)
		out[n++] = f;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned *out, CUlibrary library)
{
	return count(out, library);
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary library)
{
	CALL("name");
	DONE(enumerate(out, n, library));
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned *out, CUmodule module)
{
	return count(out, module);
}

EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned n, CUmodule module)
{
	CALL("name");
	DONE(enumerate(out, n, module));
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
	CALL("name");
	if (!arena_holds(&functions, kernel))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	if (!kernel->twin)
		kernel->twin = function_new(kernel->module, kernel->name);
	*out = kernel->twin;
	note(rec, *out, kernel->name);
	DONE(*out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT CUresult cuFuncGetName(const char **name, CUfunction function)
{
	CALL("name");
	if (!arena_holds(&functions, function))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	*name = function->name;
	note(rec, function, *name);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	CALL("name");
	if (!arena_holds(&functions, kernel))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	*name = kernel->name;
	note(rec, kernel, *name);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction function)
{
	if (!arena_holds(&functions, function))
		return CUDA_ERROR_INVALID_HANDLE;
	*out = function->module;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int which, CUfunction function)
{
	if (!arena_holds(&functions, function))
		return CUDA_ERROR_INVALID_HANDLE;
	*value = which == 0 ? 1024 : which == 4 ? 32 : 0; /* threads per block, registers */
	return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int which, int value)
{
	(void)which;
	(void)value;
	return arena_holds(&functions, function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuKernelSetAttribute(int which, int value, CUkernel kernel, CUdevice device)
{
	(void)which;
	(void)value;
	(void)device;
	return arena_holds(&functions, kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
							    int block_size, size_t shared)
{
	LEAF();
	(void)function;
	(void)shared;
	*blocks = block_size > 0 ? 2048 / block_size : 0;
	return CUDA_SUCCESS;
}
