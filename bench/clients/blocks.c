// SPDX-License-Identifier: Apache-2.0
/*
 * blocks LAYER LOOPS LAUNCHES PAIRS SEED: the same work twice, in turn, many times over.
 *
 * A block is LAUNCHES launches with LOOPS of work before each. One block of a pair launches through
 * libraries, which a recorder probes; the other through copies of their functions here, which
 * nobody probes. Which comes first is drawn. LAYER is "driver", or "both" for the runtime's
 * function that calls the driver's. Prints of each pair the nanoseconds of wall time and of
 * processor time, probed and not. With LOOPS 0 it prints how many loops take a microsecond.
 *
 * Compiled with -DDRIVER or -DRUNTIME it is that library.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct dim3 {
	unsigned x, y, z;
};

#define DRIVER_FUNCTION(name)                                                                      \
	__attribute__((noinline)) int name(void *function, unsigned grid_x, unsigned grid_y,       \
					   unsigned grid_z, unsigned block_x, unsigned block_y,    \
					   unsigned block_z, unsigned shared, void *stream,        \
					   void **params, void **extra)                            \
	{                                                                                          \
		__asm__ volatile("" ::"r"(function), "r"(stream), "r"(params), "r"(extra)          \
				 : "memory");                                                      \
		return grid_x + grid_y + grid_z + block_x + block_y + block_z + shared == 0;       \
	}

#define RUNTIME_FUNCTION(name, driver)                                                             \
	__attribute__((noinline)) int name(const void *function, struct dim3 grid,                 \
					   struct dim3 block, void **params, size_t shared,        \
					   void *stream)                                           \
	{                                                                                          \
		int result = driver((void *)function, grid.x, grid.y, grid.z, block.x, block.y,    \
				    block.z, shared, stream, params, NULL);                        \
		__asm__ volatile("" ::: "memory");                                                 \
		return result;                                                                     \
	}

int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		   void *, void **, void **);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);

#if defined(DRIVER)
DRIVER_FUNCTION(cuLaunchKernel)
#elif defined(RUNTIME)
RUNTIME_FUNCTION(cudaLaunchKernel, cuLaunchKernel)
#else
static DRIVER_FUNCTION(plain_driver)
static RUNTIME_FUNCTION(plain_runtime, plain_driver)

static const struct dim3 GRID = { 1, 1, 1 }, BLOCK = { 32, 1, 1 };
static void *const KERNEL = (void *)77;

static void probed_driver_once(void)
{
	cuLaunchKernel(KERNEL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void plain_driver_once(void)
{
	plain_driver(KERNEL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void probed_both_once(void)
{
	cudaLaunchKernel(KERNEL, GRID, BLOCK, NULL, 0, NULL);
}

static void plain_both_once(void)
{
	plain_runtime(KERNEL, GRID, BLOCK, NULL, 0, NULL);
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void work(long loops)
{
	for (long i = 0; i < loops; i++)
		__asm__ volatile("" ::: "memory");
}

static void block(void (*once)(void), long loops, long launches, uint64_t *took)
{
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);

	for (long i = 0; i < launches; i++) {
		work(loops);
		once();
	}
	took[0] = now(CLOCK_MONOTONIC) - wall;
	took[1] = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

static long loops_a_us(void)
{
	uint64_t best = ~0ull;

	for (int i = 0; i < 50; i++) {
		uint64_t began = now(CLOCK_MONOTONIC), took;

		work(1000000);
		took = now(CLOCK_MONOTONIC) - began;
		best = took < best ? took : best;
	}
	return 1000000ull * 1000 / best;
}

int main(int argc, char **argv)
{
	int both = argc > 1 && !strcmp(argv[1], "both");
	void (*probed)(void) = both ? probed_both_once : probed_driver_once;
	void (*plain)(void) = both ? plain_both_once : plain_driver_once;
	long loops = argc > 2 ? atol(argv[2]) : 0, launches, pairs;
	uint64_t seed;

	if (argc < 6 || !loops)
		return printf("%ld\n", loops_a_us()) < 0;
	launches = atol(argv[3]);
	pairs = atol(argv[4]);
	seed = strtoull(argv[5], NULL, 10) | 1;
	for (long i = 0; i < pairs; i++) {
		uint64_t with[2], without[2];

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed >> 63)
			block(probed, loops, launches, with);
		block(plain, loops, launches, without);
		if (!(seed >> 63))
			block(probed, loops, launches, with);
		printf("%lu %lu %lu %lu\n", with[0], with[1], without[0], without[1]);
	}
	return 0;
}
#endif
