// SPDX-License-Identifier: Apache-2.0
/*
 * forker SECONDS: forks all the time, for so long at most, and says how long that took.
 *
 * Says "forking"; with its input's end, or when the time is up, how many milliseconds the longest
 * fork took, and what all took beyond one millisecond each.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	double until = now() + atof(argv[1]), longest = 0, waited = 0, took;

	printf("forking\n");
	fflush(stdout);
	while (now() < until && poll(&input, 1, 1) == 0) {
		double before = now();
		pid_t child = fork();

		if (!child)
			_exit(0);
		took = now() - before;
		if (took > longest)
			longest = took;
		if (took > 1e-3)
			waited += took - 1e-3;
		waitpid(child, NULL, 0);
	}
	printf("%.1f %.1f\n", longest * 1e3, waited * 1e3);
	return argc != 2;
}
