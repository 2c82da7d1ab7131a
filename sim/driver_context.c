// SPDX-License-Identifier: Apache-2.0
/* cuInit, devices, contexts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

#define DRIVER_VERSION 13000

/* MIG instances and several devices differ in their UUID only. */
static void uuid_of(int ordinal, CUuuid *out)
{
	const char *text = getenv("COTENANT_SIM_UUIDS");
	unsigned byte, digits = 0;

	memcpy(out->bytes, "cotenant-sim-gpu", 16);
	out->bytes[15] = (char)('0' + ordinal);
	for (int i = 0; text && i < ordinal; i++)
		text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL;
	if (text && (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0))
		text += 4;
	for (; text && *text && *text != ',' && digits < 16; text++)
		if (*text != '-' && sscanf(text, "%2x", &byte) == 1) {
			out->bytes[digits++] = (char)byte;
			text++;
		}
}

EXPORT CUresult cuInit(unsigned flags)
{
	CALL("init");
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t ms = env_number("COTENANT_SIM_INIT_MS", 150);
	struct timespec rest = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };

	if (flags)
		DONE(CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&lock);
	if (!initialised)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
	initialised = true;
	pthread_mutex_unlock(&lock);
	DONE(gpu_count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
	LEAF();
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!device || !gpu_of(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	LEAF();
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	*count = gpu_count;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	if (!gpu_of(device) || !name || length < 1)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)length, "cotenant stand-in GPU");
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	CALL("device");
	if (!gpu_of(device) || !uuid)
		DONE(CUDA_ERROR_INVALID_DEVICE);
	uuid_of(device, uuid);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	CALL("device");
	if (!gpu_of(device) || !uuid)
		DONE(CUDA_ERROR_INVALID_DEVICE);
	uuid_of(device, uuid);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
	if (!gpu_of(device) || !id)
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(id, (size_t)length, "0000:%02X:00.0", 0x3b + device);
	return CUDA_SUCCESS;
}

/* The few attributes a program decides by; anything else is 1. */
static int attribute(int which)
{
	switch (which) {
	case 1: /* threads per block */
	case 2:
	case 3: return 1024;
	case 5: /* grid */ return 2147483647;
	case 8: /* shared memory per block */ return 49152;
	case 10: /* warp */ return 32;
	case 16: /* multiprocessors */ return 108;
	case 39: /* threads per multiprocessor */ return 2048;
	case 75: /* compute capability */ return 9;
	case 76: return 0;
	default: return 1;
	}
}

EXPORT CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	if (!gpu_of(device) || !value)
		return CUDA_ERROR_INVALID_DEVICE;
	*value = attribute(which);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	if (!gpu_of(device) || !bytes)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = env_number("COTENANT_SIM_MEMORY", 80ULL << 30);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = gpu_of(device) && gpu_of(peer) && device != peer;
	return CUDA_SUCCESS;
}

static void note_context(struct truth *rec, CUcontext context)
{
	if (rec) {
		rec->context = (uint64_t)context;
		rec->handle = (uint64_t)context;
		rec->has |= HAS_HANDLE;
	}
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	CALL("context");
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct gpu *gpu = gpu_of(device);
	CUresult result = CUDA_SUCCESS;

	if (!initialised)
		DONE(CUDA_ERROR_NOT_INITIALIZED);
	if (!gpu || !out)
		DONE(CUDA_ERROR_INVALID_DEVICE);
	pthread_mutex_lock(&lock);
	if (!gpu->primary)
		result = context_new(&gpu->primary, device, 0);
	if (result == CUDA_SUCCESS) {
		gpu->primary_refs++;
		*out = gpu->primary;
		note_context(rec, *out);
	}
	pthread_mutex_unlock(&lock);
	DONE(result);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CALL("context");
	struct gpu *gpu = gpu_of(device);

	if (!gpu || !gpu->primary_refs)
		DONE(CUDA_ERROR_INVALID_CONTEXT);
	if (--gpu->primary_refs == 0) {
		context_drop(gpu->primary);
		gpu->primary = NULL;
	}
	DONE(CUDA_SUCCESS);
}

/* Waits for what runs; what the context holds stays, for nobody resets and then uses it. */
static CUresult reset(CUdevice device)
{
	struct gpu *gpu = gpu_of(device);

	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	return gpu->primary ? queue_context_wait(gpu->primary) : CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
	CALL("context");
	DONE(reset(device));
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CALL("context");
	DONE(reset(device));
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	(void)flags;
	return gpu_of(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	if (!gpu_of(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = 0;
	*active = gpu_of(device)->primary != NULL;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	struct thread *thread = self();

	if (!arena_holds(&contexts, context))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (thread->depth == 32)
		return CUDA_ERROR_OUT_OF_MEMORY;
	thread->stack[thread->depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult create(struct truth *rec, CUcontext *out, unsigned flags, CUdevice device)
{
	CUresult result;

	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_new(out, device, flags);
	if (result != CUDA_SUCCESS)
		return result;
	note_context(rec, *out);
	return push(*out);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
	CALL("context");
	DONE(create(rec, out, flags, device));
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *out, void *params, int n, unsigned flags, CUdevice device)
{
	CALL("context");
	(void)params;
	(void)n;
	DONE(create(rec, out, flags, device));
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, void *params, unsigned flags, CUdevice device)
{
	CALL("context");
	(void)params;
	DONE(create(rec, out, flags, device));
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext context)
{
	CALL("context");
	if (!arena_holds(&contexts, context))
		DONE(CUDA_ERROR_INVALID_CONTEXT);
	note_context(rec, context);
	context_drop(context);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	CALL("context");
	struct thread *thread = self();

	note_context(rec, context);
	if (thread->depth)
		thread->depth--;
	DONE(context ? push(context) : CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
	if (!initialised)
		return CUDA_ERROR_NOT_INITIALIZED;
	*out = context_current();
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = context->gpu->ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	CALL("context");
	note_context(rec, context);
	DONE(push(context));
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
	CALL("context");
	struct thread *thread = self();

	if (!thread->depth)
		DONE(CUDA_ERROR_INVALID_CONTEXT);
	thread->depth--;
	if (out)
		*out = thread->stack[thread->depth];
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSynchronize(void)
{
	CALL("sync");
	struct context *context = context_current();

	DONE(context ? queue_context_wait(context) : CUDA_ERROR_INVALID_CONTEXT);
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
	CALL("sync");
	if (!arena_holds(&contexts, context))
		DONE(CUDA_ERROR_INVALID_CONTEXT);
	note_context(rec, context);
	DONE(queue_context_wait(context));
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	LEAF();
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}
