// SPDX-License-Identifier: Apache-2.0
/*
 * Two processes on one CPU that pass a byte to and fro: each pass is a context switch.
 *
 *   usage: switches CPU SECONDS SWITCHES_PER_SECOND
 *
 * Prints how many passes it made and how much processor time both used, in nanoseconds. With 0
 * per second it makes as many as it can.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void echo(int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1)
		if (write(to, &byte, 1) != 1)
			break;
	_exit(0);
}

int main(int argc, char **argv)
{
	long long began, end, due;
	long rate, passes = 0;
	int there[2], back[2];
	struct rusage child;
	char byte = 0;
	cpu_set_t cpus;

	if (argc != 4)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	rate = atol(argv[3]);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		close(there[1]);
		close(back[0]);
		echo(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	began = now_ns(CLOCK_MONOTONIC);
	end = began + (long long)(atof(argv[2]) * 1e9);
	while (now_ns(CLOCK_MONOTONIC) < end) {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
		passes += 2;
		due = rate ? began + (long long)(passes * 1e9 / rate) : 0;
		while (due && now_ns(CLOCK_MONOTONIC) < due && due < end)
			;
	}
	close(there[1]);
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &child);
	printf("%ld %lld\n", passes,
	       now_ns(CLOCK_PROCESS_CPUTIME_ID) +
		       (child.ru_utime.tv_sec + child.ru_stime.tv_sec) * 1000000000LL +
		       (child.ru_utime.tv_usec + child.ru_stime.tv_usec) * 1000LL);
	return 0;
}
