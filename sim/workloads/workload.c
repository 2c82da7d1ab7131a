// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a story for an exact number of steps and prints one JSON object: how often
 * each function was called, each kernel launched, and how many bytes were moved.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

struct options options = {
	.api = &driver_api,
	.story = "mix",
	.steps = 101,
	.seed = 1,
	.burst = 1,
	.kernels = 3,
	.threads = 1,
	.streams = 1,
};

static story_step run_step;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "workload: %s failed with %d\n", what, error);
	exit(1);
}

uint64_t random_next(struct worker *w)
{
	uint64_t z = (w->random += 0x9E3779B97F4A7C15ULL);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

__attribute__((noinline)) static void spin(uint64_t loops)
{
	for (uint64_t i = 0; i < loops; i++)
		__asm__ volatile("" : : "r"(i) : "memory");
}

static void calibrate(void)
{
	const uint64_t loops = 20000000;
	int64_t best = INT64_MAX;

	if (options.spin_us <= 0)
		return;
	for (int i = 0; i < 5; i++) {
		int64_t start = now_ns(), took;

		spin(loops);
		took = now_ns() - start;
		best = took < best ? took : best;
	}
	options.spin_loops = (uint64_t)(options.spin_us * 1000 * (double)loops / (double)best);
}

void gpu_launch(struct worker *w, int kernel, uint32_t blocks, uint32_t threads, void *stream)
{
	struct shape shape = { { blocks, 1, 1 }, { threads, 1, 1 }, 0 };

	spin(options.spin_loops);
	check(options.api->launch(kernel, &shape, stream), "launch");
	w->calls[CALL_LAUNCH]++;
	w->launches[kernel]++;
}

void gpu_copy(struct worker *w, enum direction direction, size_t bytes, void *stream)
{
	char *device = w->device_memory;
	void *dst = direction == DTOH ? w->host_memory : device;
	void *src = direction == HTOD ? w->host_memory
				      : device + (direction == DTOD ? BATCH_BYTES : 0);

	check(options.api->copy(direction, dst, src, bytes, stream), "copy");
	w->calls[CALL_HTOD + direction]++;
	w->bytes[direction] += bytes;
}

void gpu_copy_wait(struct worker *w, enum direction direction, size_t bytes)
{
	void *dst = direction == DTOH ? w->host_memory : w->device_memory;
	void *src = direction == DTOH ? w->device_memory : w->host_memory;

	check(options.api->copy_wait(direction, dst, src, bytes), "copy");
	w->calls[CALL_COPY_WAIT_HTOD + direction]++;
	w->bytes[direction] += bytes;
}

void gpu_fill(struct worker *w, size_t bytes, void *stream)
{
	check(options.api->fill(w->device_memory, bytes, stream), "memset");
	w->calls[CALL_FILL]++;
	w->filled += bytes;
}

void *gpu_allocate(struct worker *w, size_t bytes)
{
	void *address = NULL;

	check(options.api->allocate(&address, bytes), "allocation");
	w->calls[CALL_ALLOCATE]++;
	w->allocated += bytes;
	return address;
}

void gpu_release(struct worker *w, void *address)
{
	check(options.api->release(address), "release");
	w->calls[CALL_RELEASE]++;
}

void gpu_stream_wait(struct worker *w, void *stream)
{
	check(options.api->stream_wait(stream), "stream wait");
	w->calls[CALL_STREAM_WAIT]++;
}

void gpu_device_wait(struct worker *w)
{
	check(options.api->device_wait(), "device wait");
	w->calls[CALL_DEVICE_WAIT]++;
}

static void touch(const char *path)
{
	FILE *file = path ? fopen(path, "w") : NULL;

	if (file)
		fclose(file);
}

static void wait_for(const char *path)
{
	struct timespec rest = { 0, 2000000 };
	struct stat st;

	while (path && stat(path, &st))
		nanosleep(&rest, NULL);
}

static void wait_turn(struct worker *w)
{
	struct timespec at;

	if (options.rate <= 0 || w->turn++ % options.burst)
		return;
	if (!w->next)
		w->next = now_ns();
	w->next += (int64_t)(1e9 * (double)options.burst / options.rate);
	at.tv_sec = w->next / 1000000000LL;
	at.tv_nsec = w->next % 1000000000LL;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	const struct api *api = options.api;
	/* The first workers take the remainder: the sum is exact. */
	uint64_t steps = options.steps / (uint64_t)options.threads +
			 ((uint64_t)w->index < options.steps % (uint64_t)options.threads);

	check(api->start(options.device), "initialisation");
	w->device_memory = gpu_allocate(w, 2 * BATCH_BYTES);
	check(api->allocate_host(&w->host_memory, BATCH_BYTES), "pinned allocation");
	for (int i = 0; i < options.streams; i++)
		check(api->stream_new(&w->streams[i]), "stream creation");
	w->calls[CALL_ALLOCATE_HOST]++;
	w->calls[CALL_RELEASE_HOST]++;
	w->calls[CALL_STREAM_NEW] += (uint64_t)options.streams;
	rank_start(w);
	for (uint64_t i = 0; i < steps; i++) {
		if (options.pause_file && i == options.pause_after) {
			touch(options.ready);
			wait_for(options.pause_file);
		}
		wait_turn(w);
		run_step(w, i);
	}
	gpu_device_wait(w);
	rank_finish(w);
	check(api->release_host(w->host_memory), "pinned release");
	gpu_release(w, w->device_memory);
	return NULL;
}

static void print_counts(const char *key, const char *const *names, const uint64_t *counts, int n)
{
	const char *comma = "";

	printf(",\"%s\":{", key);
	for (int i = 0; i < n; i++) {
		uint64_t sum = counts[i];
		bool seen = false;

		/* Several calls may be one function. */
		for (int j = 0; j < n; j++) {
			if (j != i && strcmp(names[i], names[j]) == 0) {
				seen = seen || j < i;
				sum += counts[j];
			}
		}
		if (seen || !sum)
			continue;
		printf("%s\"%s\":%" PRIu64, comma, names[i], sum);
		comma = ",";
	}
	printf("}");
}

static void print_summary(const struct worker *workers, int64_t wall_ns)
{
	static const char *const directions[DIRECTIONS] = { "HtoD", "DtoH", "DtoD" };
	struct worker all = { 0 };

	for (int i = 0; i < options.threads; i++) {
		for (int j = 0; j < CALLS; j++)
			all.calls[j] += workers[i].calls[j];
		for (int j = 0; j < KERNELS; j++)
			all.launches[j] += workers[i].launches[j];
		for (int j = 0; j < DIRECTIONS; j++)
			all.bytes[j] += workers[i].bytes[j];
		all.filled += workers[i].filled;
		all.allocated += workers[i].allocated;
	}
	printf("{\"story\":\"%s\",\"api\":\"%s\",\"pid\":%d,\"steps\":%" PRIu64 ",\"seed\":%" PRIu64
	       ",\"wall_ns\":%" PRId64 ",\"spin_loops\":%" PRIu64,
	       options.story, options.api->name, getpid(), options.steps, options.seed, wall_ns,
	       options.spin_loops);
	print_counts("calls", options.api->calls, all.calls, CALLS);
	print_counts("launches", kernel_names, all.launches, KERNELS);
	print_counts("bytes", directions, all.bytes, DIRECTIONS);
	printf(",\"filled_bytes\":%" PRIu64 ",\"allocated_bytes\":%" PRIu64 "}\n", all.filled,
	       all.allocated);
}

static void run(void)
{
	struct worker *workers = calloc((size_t)options.threads, sizeof(*workers));
	pthread_t *threads = calloc((size_t)options.threads, sizeof(*threads));
	int64_t start = now_ns();

	for (int i = 0; i < options.threads; i++) {
		workers[i].index = i;
		workers[i].random = options.seed * 1000003 + (uint64_t)i;
	}
	for (int i = 1; i < options.threads; i++)
		check(pthread_create(&threads[i], NULL, run_worker, &workers[i]), "thread");
	run_worker(&workers[0]);
	for (int i = 1; i < options.threads; i++)
		pthread_join(threads[i], NULL);
	print_summary(workers, now_ns() - start);
	check(options.api->finish(), "finish");
	free(workers);
	free(threads);
}

static _Noreturn void usage(void)
{
	fprintf(stderr,
		"usage: workload [STORY] [--api driver|runtime12|runtime13] [--steps N] [--seed "
		"N]\n"
		"  [--rate STEPS_PER_SECOND [--burst STEPS]] [--kernels 1-16] [--threads N] "
		"[--streams 1-64] [--device N]\n"
		"  [--spin-us US | --spin-loops N] [--checkpoint FILE]\n"
		"  [--ready FILE] [--start-on FILE] [--pause-after STEPS --resume-on FILE]\n"
		"  [--ranks N --rank R --id-file FILE]\n"
		"stories: %s\n",
		story_names());
	exit(2);
}

static const struct api *api_find(const char *name)
{
	static const struct api *const apis[] = { &driver_api, &runtime12_api, &runtime13_api };

	for (int i = 0; i < 3; i++)
		if (strcmp(apis[i]->name, name) == 0)
			return apis[i];
	usage();
}

enum {
	O_API = 256,
	O_STEPS,
	O_SEED,
	O_RATE,
	O_BURST,
	O_KERNELS,
	O_THREADS,
	O_STREAMS,
	O_DEVICE,
	O_SPIN_US,
	O_SPIN_LOOPS,
	O_CHECKPOINT,
	O_READY,
	O_START_ON,
	O_PAUSE_AFTER,
	O_RESUME_ON,
	O_RANKS,
	O_RANK,
	O_ID_FILE
};

static const struct option long_options[] = {
	{ "api", 1, NULL, O_API },
	{ "steps", 1, NULL, O_STEPS },
	{ "seed", 1, NULL, O_SEED },
	{ "rate", 1, NULL, O_RATE },
	{ "burst", 1, NULL, O_BURST },
	{ "kernels", 1, NULL, O_KERNELS },
	{ "threads", 1, NULL, O_THREADS },
	{ "streams", 1, NULL, O_STREAMS },
	{ "device", 1, NULL, O_DEVICE },
	{ "spin-us", 1, NULL, O_SPIN_US },
	{ "spin-loops", 1, NULL, O_SPIN_LOOPS },
	{ "checkpoint", 1, NULL, O_CHECKPOINT },
	{ "ready", 1, NULL, O_READY },
	{ "start-on", 1, NULL, O_START_ON },
	{ "pause-after", 1, NULL, O_PAUSE_AFTER },
	{ "resume-on", 1, NULL, O_RESUME_ON },
	{ "ranks", 1, NULL, O_RANKS },
	{ "rank", 1, NULL, O_RANK },
	{ "id-file", 1, NULL, O_ID_FILE },
	{ NULL, 0, NULL, 0 },
};

static void take_option(int option, const char *value)
{
	switch (option) {
	case O_API: options.api = api_find(value); break;
	case O_STEPS: options.steps = whole(value, UINT64_MAX); break;
	case O_SEED: options.seed = whole(value, UINT64_MAX); break;
	case O_RATE: options.rate = positive(value); break;
	case O_BURST: options.burst = whole(value, UINT64_MAX); break;
	case O_KERNELS: options.kernels = whole(value, INT_MAX); break;
	case O_THREADS: options.threads = whole(value, INT_MAX); break;
	case O_STREAMS: options.streams = whole(value, INT_MAX); break;
	case O_DEVICE: options.device = whole(value, INT_MAX); break;
	case O_SPIN_US: options.spin_us = positive(value); break;
	case O_SPIN_LOOPS: options.spin_loops = whole(value, UINT64_MAX); break;
	case O_CHECKPOINT: options.checkpoint = value; break;
	case O_READY: options.ready = value; break;
	case O_START_ON: options.start_on = value; break;
	case O_PAUSE_AFTER: options.pause_after = whole(value, UINT64_MAX); break;
	case O_RESUME_ON: options.pause_file = value; break;
	case O_RANKS: options.ranks = whole(value, INT_MAX); break;
	case O_RANK: options.rank = whole(value, INT_MAX); break;
	case O_ID_FILE: options.id_file = value; break;
	default: usage();
	}
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		take_option(option, optarg);
	if (optind < argc)
		options.story = argv[optind];
	run_step = story_find(options.story);
	if (!run_step || options.kernels < 1 || options.kernels > KERNELS || options.threads < 1 ||
	    options.streams < 1 || options.streams > 64 || !options.burst)
		usage();
	calibrate();
	check(options.api->open(options.kernels), "loading");
	rank_open();
	if (!options.pause_file)
		touch(options.ready);
	wait_for(options.start_on);
	run();
	return 0;
}
