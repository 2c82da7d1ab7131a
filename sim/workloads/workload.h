/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU program with exact counts: what it calls is decided by its options alone. */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERNELS 16

struct shape {
	uint32_t grid[3], block[3], shared_bytes;
};

enum direction { HTOD, DTOH, DTOD, DIRECTIONS };

/* How a program reaches the GPU; each returns 0 or the library's error. */
struct api {
	const char *name;
	int (*open)(int kernels); /* load the library and register kernels: no GPU call yet */
	int (*start)(int device); /* for each thread, before its first call */
	int (*launch)(int kernel, const struct shape *shape, void *stream);
	int (*copy)(enum direction direction, void *dst, const void *src, size_t bytes,
		    void *stream);
	int (*copy_wait)(enum direction direction, void *dst, const void *src, size_t bytes);
	int (*fill)(void *dst, size_t bytes, void *stream);
	int (*allocate)(void **out, size_t bytes);
	int (*release)(void *address);
	int (*allocate_host)(void **out, size_t bytes);
	int (*release_host)(void *address);
	int (*stream_new)(void **out);
	int (*stream_wait)(void *stream);
	int (*device_wait)(void);
	int (*finish)(void); /* for the process, after its last call */
	/* the names of the functions that the calls above are */
	const char *calls[15];
};

enum call {
	CALL_LAUNCH,
	CALL_HTOD,
	CALL_DTOH,
	CALL_DTOD,
	CALL_COPY_WAIT_HTOD,
	CALL_COPY_WAIT_DTOH,
	CALL_FILL,
	CALL_ALLOCATE,
	CALL_RELEASE,
	CALL_STREAM_WAIT,
	CALL_DEVICE_WAIT,
	CALL_ALLREDUCE,
	CALL_ALLOCATE_HOST,
	CALL_RELEASE_HOST,
	CALL_STREAM_NEW,
	CALLS,
};

extern const struct api driver_api, runtime12_api, runtime13_api;
extern const char *const kernel_names[KERNELS];
extern void (*const kernel_stubs[KERNELS])(void);

struct options {
	const struct api *api;
	const char *story, *start_on, *ready, *pause_file, *checkpoint, *id_file;
	uint64_t steps, seed, burst, pause_after, spin_loops;
	double rate, spin_us;
	int kernels, threads, streams, device, rank, ranks;
};

extern struct options options;

struct worker {
	int index;
	uint64_t random;
	uint64_t calls[CALLS];
	uint64_t launches[KERNELS];
	uint64_t bytes[DIRECTIONS];
	uint64_t filled, allocated;
	void *streams[64];
	void *device_memory, *host_memory;
	void *comm;
	uint64_t turn;
	int64_t next; /* when the next burst of steps is due */
};

#define BATCH_BYTES 65536

/* Counted calls; an error ends the program. */
void gpu_launch(struct worker *w, int kernel, uint32_t blocks, uint32_t threads, void *stream);
void gpu_copy(struct worker *w, enum direction direction, size_t bytes, void *stream);
void gpu_copy_wait(struct worker *w, enum direction direction, size_t bytes);
void gpu_fill(struct worker *w, size_t bytes, void *stream);
void *gpu_allocate(struct worker *w, size_t bytes);
void gpu_release(struct worker *w, void *address);
void gpu_stream_wait(struct worker *w, void *stream);
void gpu_device_wait(struct worker *w);
void gpu_allreduce(struct worker *w, size_t floats, void *stream);
void check(int error, const char *what);

/* Of an option's value, from 0 on; what is no such number ends the workload. */
uint64_t whole(const char *value, uint64_t most);
double positive(const char *value);
uint64_t random_next(struct worker *w);

/* stories.c */
typedef void (*story_step)(struct worker *w, uint64_t step);
story_step story_find(const char *name);
const char *story_names(void);

/* rank.c */
void rank_open(void);
void rank_start(struct worker *w);
void rank_finish(struct worker *w);

#endif
