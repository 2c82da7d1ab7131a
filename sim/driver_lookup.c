// SPDX-License-Identifier: Apache-2.0
/*
 * cuGetProcAddress: a name and a CUDA version decide the exported entry. Every
 * pointer it returns is one that dlsym() would return for some name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define PER_THREAD_FLAG 2

/* From which CUDA version on a name means a later revision; others: _v2 if there is one. */
static const struct revision {
	const char *name;
	int since;
	const char *suffix;
} revisions[] = {
	{ "cuCtxCreate", 13000, "_v4" },
	{ "cuCtxCreate", 11040, "_v3" },
	{ "cuCtxCreate", 0, "_v2" },
	{ "cuCtxSynchronize", 13000, "_v2" },
	{ "cuCtxSynchronize", 0, "" },
	{ "cuDeviceGetUuid", 11040, "_v2" },
	{ "cuDeviceGetUuid", 0, "" },
	{ "cuEventElapsedTime", 12080, "_v2" },
	{ "cuEventElapsedTime", 0, "" },
	{ "cuGetProcAddress", 12000, "_v2" },
	{ "cuGetProcAddress", 0, "" },
	{ "cuGraphAddKernelNode", 12000, "_v2" },
	{ "cuGraphAddKernelNode", 0, "" },
	{ "cuGraphAddNode", 12030, "_v2" },
	{ "cuGraphAddNode", 0, "" },
	{ "cuGraphAddDependencies", 12030, "_v2" },
	{ "cuGraphAddDependencies", 0, "" },
	{ "cuGraphExecKernelNodeSetParams", 12000, "_v2" },
	{ "cuGraphExecKernelNodeSetParams", 0, "" },
	{ "cuGraphExecUpdate", 12000, "_v2" },
	{ "cuGraphExecUpdate", 0, "" },
	{ "cuGraphInstantiate", 12000, "WithFlags" },
	{ "cuGraphKernelNodeGetParams", 12000, "_v2" },
	{ "cuGraphKernelNodeGetParams", 0, "" },
	{ "cuGraphKernelNodeSetParams", 12000, "_v2" },
	{ "cuGraphKernelNodeSetParams", 0, "" },
	{ "cuMemAdvise", 12020, "_v2" },
	{ "cuMemAdvise", 0, "" },
	{ "cuMemPrefetchAsync", 12020, "_v2" },
	{ "cuMemPrefetchAsync", 0, "" },
	{ "cuMemcpy3DBatchAsync", 13000, "_v2" },
	{ "cuMemcpy3DBatchAsync", 0, "" },
	{ "cuMemcpyBatchAsync", 13000, "_v2" },
	{ "cuMemcpyBatchAsync", 0, "" },
	{ "cuStreamBeginCapture", 10010, "_v2" },
	{ "cuStreamBeginCapture", 0, "" },
	{ "cuStreamGetCaptureInfo", 12030, "_v3" },
	{ "cuStreamGetCaptureInfo", 11030, "_v2" },
	{ "cuStreamGetCaptureInfo", 0, "" },
};

static void *own_symbol(const char *name)
{
	static void *self_handle;
	Dl_info info;
	void *found;

	if (!self_handle && dladdr((const void *)(uintptr_t)own_symbol, &info))
		self_handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	found = self_handle ? dlsym(self_handle, name) : NULL;
	/* dlsym() also looks in what we depend on. */
	if (found && (!dladdr(found, &info) || info.dli_saddr != found))
		return NULL;
	return found;
}

static void *entry(const char *name, const char *revision, bool per_thread)
{
	static const char *const twins[] = { "_ptsz", "_ptds" };
	char full[256];
	void *found = NULL;

	for (int i = 0; per_thread && !found && i < 2; i++) {
		snprintf(full, sizeof(full), "%s%s%s", name, revision, twins[i]);
		found = own_symbol(full);
	}
	if (!found) {
		snprintf(full, sizeof(full), "%s%s", name, revision);
		found = own_symbol(full);
	}
	return found;
}

static void *resolve(const char *name, int version, bool per_thread)
{
	void *found;

	for (size_t i = 0; i < sizeof(revisions) / sizeof(*revisions); i++)
		if (strcmp(revisions[i].name, name) == 0 && version >= revisions[i].since)
			return entry(name, revisions[i].suffix, per_thread);
	found = version >= 3020 ? entry(name, "_v2", per_thread) : NULL;
	return found ? found : entry(name, "", per_thread);
}

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
				    int *status)
{
	if (!name || !out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = resolve(name, version, (flags & PER_THREAD_FLAG) != 0);
	if (status)
		*status = *out ? 0 : 1; /* found, not found */
	return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, uint64_t flags)
{
	if (!name || !out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = resolve(name, version, (flags & PER_THREAD_FLAG) != 0);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static const struct error {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
};

static const struct error *error_of(CUresult code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			return &errors[i];
	return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **name)
{
	LEAF();
	const struct error *error = error_of(code);

	*name = error ? error->name : NULL;
	return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **text)
{
	LEAF();
	const struct error *error = error_of(code);

	*text = error ? error->text : NULL;
	return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void gate_next_launch(const struct gate *gate, const char *nccl_op)
{
	self()->gate = gate;
	self()->nccl_op = nccl_op;
}

EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	LEAF();
	static const struct private_table ours = { sizeof(ours),    truth_outer_begin,
						   truth_outer_end, gate_next_launch,
						   truth_nccl,	    now_ns };

	if (!table || !id || memcmp(id->bytes, PRIVATE_TABLE_ID, 16) != 0)
		return CUDA_ERROR_NOT_FOUND;
	*table = &ours;
	return CUDA_SUCCESS;
}
