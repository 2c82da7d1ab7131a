// SPDX-License-Identifier: Apache-2.0
/* Kernel launches. */
#include <string.h>

#include "driver.h"

#define LAUNCH_NS 3000
#define NS_PER_THREAD 0.25

double kernel_work(const struct function *function, const uint32_t *grid, const uint32_t *block)
{
	double threads = (double)grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2];

	return function->kernel_ns >= 0 ? function->kernel_ns : LAUNCH_NS + threads * NS_PER_THREAD;
}

struct launch {
	CUfunction function;
	uint32_t grid[3], block[3], shared_bytes;
	CUstream stream;
};

static void note(struct truth *rec, const struct launch *l)
{
	rec->handle = (uint64_t)l->function;
	rec->stream = (uint64_t)l->stream;
	memcpy(rec->grid, l->grid, sizeof(rec->grid));
	memcpy(rec->block, l->block, sizeof(rec->block));
	rec->shared_bytes = l->shared_bytes;
	rec->nccl = self()->nccl_op;
	rec->has |= HAS_SHAPE | HAS_STREAM | HAS_HANDLE;
}

static CUresult launch(struct truth *rec, const struct launch *l, bool per_thread)
{
	struct stream *stream;
	CUresult result;

	if (__builtin_expect(rec != NULL, 0))
		note(rec, l);
	if (!arena_holds(&functions, l->function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (rec)
		rec->kernel = l->function->name;
	stream = stream_of(l->stream, per_thread);
	if (!stream)
		return context_current() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
	if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !l->block[0] || !l->block[1] ||
	    !l->block[2] || (uint64_t)l->block[0] * l->block[1] * l->block[2] > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_expect(stream->capture != NULL, 0)) {
		struct capture_op op = { .kind = NODE_KERNEL,
					 .function = l->function,
					 .shared_bytes = l->shared_bytes };

		memcpy(op.grid, l->grid, sizeof(op.grid));
		memcpy(op.block, l->block, sizeof(op.block));
		if (graph_captures(stream, &op, rec))
			return CUDA_SUCCESS;
	}
	result = queue_submit(stream, kernel_work(l->function, l->grid, l->block), rec);
	self()->gate = NULL;
	self()->nccl_op = NULL;
	return result;
}

#define LAUNCH_PARAMS \
	CUfunction f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, \
		uint32_t bz, uint32_t shared_bytes, CUstream s, void **params
#define LAUNCH_VALUE &(struct launch){ f, { gx, gy, gz }, { bx, by, bz }, shared_bytes, s }

EXPORT CUresult cuLaunchKernel(LAUNCH_PARAMS, void **extra)
{
	CALL("launch");
	(void)params;
	(void)extra;
	DONE(launch(rec, LAUNCH_VALUE, false));
}

EXPORT CUresult cuLaunchKernel_ptsz(LAUNCH_PARAMS, void **extra)
{
	CALL("launch");
	(void)params;
	(void)extra;
	DONE(launch(rec, LAUNCH_VALUE, true));
}

EXPORT CUresult cuLaunchCooperativeKernel(LAUNCH_PARAMS)
{
	CALL("launch");
	(void)params;
	DONE(launch(rec, LAUNCH_VALUE, false));
}

EXPORT CUresult cuLaunchCooperativeKernel_ptsz(LAUNCH_PARAMS)
{
	CALL("launch");
	(void)params;
	DONE(launch(rec, LAUNCH_VALUE, true));
}

static CUresult launch_ex(struct truth *rec, const CUlaunchConfig *c, CUfunction f, bool per_thread)
{
	struct launch l = { .function = f };

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(l.grid, c->grid, sizeof(l.grid));
	memcpy(l.block, c->block, sizeof(l.block));
	l.shared_bytes = c->shared_bytes;
	l.stream = c->stream;
	return launch(rec, &l, per_thread);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
				 void **extra)
{
	CALL("launch");
	(void)params;
	(void)extra;
	DONE(launch_ex(rec, config, f, false));
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
				      void **extra)
{
	CALL("launch");
	(void)params;
	(void)extra;
	DONE(launch_ex(rec, config, f, true));
}

/* The oldest way: one thread per block, unless other calls (not here) had said otherwise. */
EXPORT CUresult cuLaunch(CUfunction f)
{
	CALL("launch");
	DONE(launch(rec, &(struct launch){ f, { 1, 1, 1 }, { 1, 1, 1 }, 0, NULL }, false));
}

EXPORT CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
	CALL("launch");
	DONE(launch(rec,
		    &(struct launch){
			    f, { (uint32_t)width, (uint32_t)height, 1 }, { 1, 1, 1 }, 0, NULL },
		    false));
}

EXPORT CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream)
{
	CALL("launch");
	DONE(launch(rec,
		    &(struct launch){
			    f, { (uint32_t)width, (uint32_t)height, 1 }, { 1, 1, 1 }, 0, stream },
		    false));
}

struct device_launch {
	CUfunction function;
	uint32_t grid[3], block[3], shared_bytes;
	CUstream stream;
	void **params;
};
_Static_assert(sizeof(struct device_launch) == 56, "CUDA_LAUNCH_PARAMS");

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(struct device_launch *list, unsigned n,
						     unsigned flags)
{
	CALL("launch");
	CUresult result = list && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	(void)flags;
	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++) {
		struct launch l = { .function = list[i].function,
				    .stream = list[i].stream,
				    .shared_bytes = list[i].shared_bytes };

		memcpy(l.grid, list[i].grid, sizeof(l.grid));
		memcpy(l.block, list[i].block, sizeof(l.block));
		result = launch(i ? NULL : rec, &l, false);
	}
	DONE(result);
}
