/* SPDX-License-Identifier: Apache-2.0 */
/* The truth log: what this process really did, one JSON object per line. */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct pending;
struct gpu;

enum truth_has {
	HAS_STREAM = 1,
	HAS_BYTES = 2,
	HAS_SHAPE = 4,
	HAS_POINTER = 8,
	HAS_DEVICE = 16, /* placed on the device: times follow */
	HAS_TIMES = 32,	 /* those times are known */
	HAS_START = 64,	 /* began at once: its start is known */
	HAS_GRAPH = 128,
	HAS_HANDLE = 256,
	HAS_CAPTURED = 512,
	HAS_NO_CALL = 1024, /* work of a graph: no call of its own */
	HAS_ELAPSED = 2048,
};

struct truth {
	struct truth *next;
	const char *api, *op, *outer, *nccl, *kernel, *direction;
	int64_t t_begin, t_end, outer_begin, outer_end, device_start, device_end;
	uint64_t stream, context, pointer, handle, graph, bytes;
	uint32_t has, grid[3], block[3], shared_bytes;
	int32_t result, outer_result;
	float elapsed_ms;
	double start, end; /* on the tenant's work clock */
	struct pending *pending;
	struct gpu *gpu;
};

extern int truth_on;

struct truth *truth_new(const char *api, const char *op);
int truth_keep(struct truth *rec, int result);
void truth_flush_all(void);
void truth_outer_begin(const char *api, const char *op);
int truth_outer_end(int result);
struct truth_thread;
void truth_thread_gone(struct truth_thread *thread);
struct nccl_record;
void truth_nccl(const struct nccl_record *call);
void truth_after_fork(void);

static inline int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static inline struct truth *truth_begin(const char *api, const char *op)
{
	return __builtin_expect(truth_on, 0) ? truth_new(api, op) : NULL;
}

static inline int truth_end(struct truth *rec, int result)
{
	return __builtin_expect(rec != NULL, 0) ? truth_keep(rec, result) : result;
}

/* The first and the last line of every exported function. */
#define CALL(op) struct truth *rec = truth_begin(__func__, op)
#define DONE(result) return truth_end(rec, result)

#endif
