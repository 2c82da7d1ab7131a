// SPDX-License-Identifier: Apache-2.0
/*
 * brief LOG TIMES GAP_US [LIBRARY]: a container's only program, which launches and is gone.
 *
 * Launches TIMES kernels GAP_US apart, each with its number as grid_x; with TIMES 0, until the
 * file LOG.enough is there. LOG gets the time of each call, one a line, after the time before and
 * the time after LIBRARY was opened.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX (1 << 20)

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			 unsigned, void *, void **, void **);

static uint64_t began[CALLS_MAX];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	const char *library = argc > 4 ? argv[4] : "libcuda.so.1";
	long times = atol(argv[2]), gap = atol(argv[3]), made = 0;
	char enough[4096];
	uint64_t before = now(), after;
	void *opened = dlopen(library, RTLD_NOW);
	launch_fn launch;
	FILE *log;

	if (!opened) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	after = now();
	launch = (launch_fn)dlsym(opened, "cuLaunchKernel");
	snprintf(enough, sizeof(enough), "%s.enough", argv[1]);
	while (made < CALLS_MAX && (times ? made < times : access(enough, F_OK))) {
		began[made] = now();
		launch((void *)77, ++made, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
		if (gap)
			usleep(gap);
	}
	log = fopen(argv[1], "w");
	if (!log)
		return 3;
	fprintf(log, "%lu %lu\n", before, after);
	for (long i = 0; i < made; i++)
		fprintf(log, "%lu\n", began[i]);
	return fclose(log) ? 3 : 0;
}
