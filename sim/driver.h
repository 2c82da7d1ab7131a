/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the driver's handles, and who looks after them. */
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "device.h"
#include "private.h"
#include "truth.h"

#define GPUS 16
#define QUEUE_DEPTH 1024 /* a launch waits when this many are queued on its stream */

/* Handles come from arenas, so that a wild handle is an error and not a crash. */
struct arena {
	const char *what;
	uint32_t size, capacity;
	char *base;
	uint32_t used;
	void *free;
	pthread_mutex_t lock;
};

#define ARENA(name, type, count) \
	struct arena name = { #name, (sizeof(struct type) + 63) & ~63u, count, NULL, 0, \
			      NULL,  PTHREAD_MUTEX_INITIALIZER }

struct object {
	uint64_t alive;
	void *next_free;
};

extern struct arena contexts, streams, events, modules, functions, graphs, graph_nodes, graph_execs,
	pools, physicals;

void *arena_new(struct arena *arena);
void arena_free(struct arena *arena, void *object);
bool arena_holds(const struct arena *arena, const void *object);
void *arena_next(struct arena *arena, void *object); /* NULL starts, NULL ends */

struct shared_gpu {
	uint64_t magic;
	pthread_mutex_t lock;
	int64_t reaped; /* when dead tenants were last looked for */
	struct device device;
};

struct gpu {
	int ordinal;
	_Atomic(struct shared_gpu *) shared;
	int fd, tenant;
	struct context *primary;
	int primary_refs;
	double scheduled; /* the end of all that has a place on the work clock */
	uint32_t pending; /* operations that wait for a gate */
	int64_t wake;	  /* when the device comes to the next gate, 0 if it is there */
};

struct moment {
	double work;
	struct pending *pending; /* else NULL */
};

/* An operation whose place on the work clock depends on somebody else. */
struct pending {
	struct pending *next;
	struct stream *stream;
	struct gate *gate;
	struct pending *after;
	double work, enqueued, start, end;
	int64_t enqueued_time;
	int refs;
	bool posted, done;
};

struct context {
	struct object object;
	struct gpu *gpu;
	struct stream *legacy;
	uint32_t flags;
	double busy, blocking_busy;
	uint32_t pending;
};

struct stream {
	struct object object;
	struct context *context;
	uint32_t flags;
	int priority;
	double busy;
	uint32_t queued; /* ever */
	double *ends;	 /* of the last QUEUE_DEPTH operations */
	struct pending *first, *last;
	struct graph *capture;
	struct graph_node *capture_last;
	bool capture_origin;
};

struct event {
	struct object object;
	struct context *context;
	uint32_t flags;
	bool recorded;
	int64_t time; /* 0 while only the place on the work clock is known */
	struct moment moment;
	struct graph *capture;
	struct graph_node *capture_last;
};

struct module {
	struct object object;
	struct context *context;
	bool library;
	struct function *first;
};

struct function {
	struct object object;
	struct module *module;
	struct function *next_in_module, *twin; /* the CUfunction of a CUkernel */
	const char *name;
	double kernel_ns; /* negative: by shape */
};

struct thread {
	struct truth_thread *truth;
	struct context *stack[32];
	int depth;
	struct stream *own[GPUS]; /* per-thread default streams */
	const struct gate *gate;
	const char *nccl_op;
	uint32_t capture_mode;
};

extern __thread struct thread *self_;
struct thread *thread_make(void);
static inline struct thread *self(void)
{
	return __builtin_expect(self_ != NULL, 1) ? self_ : thread_make();
}

/* state.c */
extern int gpu_count;
extern bool initialised, copying;
struct gpu *gpu_of(int ordinal);
CUresult context_new(struct context **out, int ordinal, uint32_t flags);
void context_drop(struct context *context);
struct context *context_current(void);
struct stream *stream_new(struct context *context, uint32_t flags, int priority);
/* The object behind a stream handle; per_thread says what handle 0 means. */
struct stream *stream_of(CUstream handle, bool per_thread);
uint64_t env_number(const char *name, uint64_t otherwise);
double env_real(const char *name, double otherwise);
const char *intern(const char *text);

/* shared.c */
bool shared_open(struct gpu *gpu);
void shared_leave(struct gpu *gpu); /* in a child after fork() */
struct device *shared_lock(struct gpu *gpu);
void shared_unlock(struct gpu *gpu);
uint64_t shared_bytes_used(struct gpu *gpu);
double shared_account(struct gpu *gpu);

/* queue.c */
CUresult queue_submit(struct stream *stream, double work, struct truth *rec);
CUresult queue_wait(struct gpu *gpu, struct moment moment);
bool queue_ready(struct gpu *gpu, struct moment moment);
struct moment queue_last(struct stream *stream);
CUresult queue_stream_wait(struct stream *stream, struct moment moment);
CUresult queue_context_wait(struct context *context);
void queue_release(struct moment moment);
void queue_settle(struct truth *rec);
int64_t queue_time(struct gpu *gpu, struct moment moment);

/* launch.c, copy.c: also what graphs run */
double kernel_work(const struct function *function, const uint32_t *grid, const uint32_t *block);
double copy_work(uint64_t bytes, const char *direction);
double function_time(const char *name);
const char *copy_direction(uint64_t dst, uint64_t src);

/* memory.c */
bool device_pointer(uint64_t address);

/* graph.c: true when the operation was captured instead of run */
struct capture_op {
	int kind;
	struct function *function;
	uint32_t grid[3], block[3], shared_bytes;
	uint64_t dst, src, bytes;
	const char *direction, *nccl;
	void (*host)(void *);
	void *host_data;
	struct graph *child;
	double work; /* 0: by what it is */
};
enum node_kind {
	NODE_KERNEL,
	NODE_MEMCPY,
	NODE_MEMSET,
	NODE_HOST,
	NODE_GRAPH,
	NODE_EMPTY,
	NODE_WAIT_EVENT,
	NODE_EVENT_RECORD
};
bool graph_captures(struct stream *stream, const struct capture_op *op, struct truth *rec);
CUresult host_func_submit(struct stream *stream, void (*fn)(void *), void *data, struct truth *rec);

#endif
