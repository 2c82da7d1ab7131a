// SPDX-License-Identifier: Apache-2.0
/*
 * holder LIBRARY DELAY_MS WAY SIZE_MIB|FILE: maps a library as code, and so long after it keeps its
 * memory locked: by "populate" or "mlock" of so much memory, a "fork" of it, or by reading a page of
 * a "fuse" file from its own memory. With "asks" a thread reads that page, and meanwhile another asks
 * the library for the address of a function. A delay of -1 lasts until a byte of its input comes.
 *
 * Says "mapped", "free" when it is over, with the seconds that it took, and ends with its input.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void *memory(size_t size, int flags)
{
	void *found = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (found == MAP_FAILED)
		exit(2);
	madvise(found, size, MADV_NOHUGEPAGE);
	return found;
}

static int own, delay_ms;
static void *page;

static void wait_for_begin(void)
{
	char byte;

	if (delay_ms < 0)
		(void)!read(0, &byte, 1);
	else
		usleep(delay_ms * 1000);
}

static void *read_page(void *unused)
{
	char byte;

	(void)!pread(own, &byte, 1, (uintptr_t)page);
	return unused;
}

/* Asked once before: the first return through a probe maps memory. */
static void ask_while_locked(int (*ask)(const char *, void **, int, uint64_t, int *))
{
	pthread_t reader;
	void *found;

	ask("cuInit", &found, 12000, 0, NULL);
	wait_for_begin();
	pthread_create(&reader, NULL, read_page, NULL);
	usleep(300000);
	ask("cuLaunchKernel", &found, 12000, 0, NULL);
	pthread_join(reader, NULL);
}

int main(int argc, char **argv)
{
	const char *way = argv[3];
	size_t size = (size_t)atoi(argv[4]) << 20;
	void *whole = NULL, *library = NULL;
	double began;
	char byte;

	delay_ms = atoi(argv[2]);
	own = open("/proc/self/mem", O_RDONLY);
	if (!strcmp(way, "fuse") || !strcmp(way, "asks"))
		page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[4], O_RDONLY), 0);
	else if (!strcmp(way, "mlock"))
		whole = memory(size, 0);
	else if (!strcmp(way, "fork"))
		memset(whole = memory(size, 0), 1, size);
	if (!strcmp(way, "asks"))
		library = dlopen(argv[1], RTLD_NOW);
	else if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) ==
		 MAP_FAILED)
		return 2;
	printf("mapped\n");
	fflush(stdout);
	if (!library)
		wait_for_begin();
	began = now();
	if (library)
		ask_while_locked(dlsym(library, "cuGetProcAddress_v2"));
	else if (page)
		read_page(NULL);
	else if (!strcmp(way, "populate"))
		memory(size, MAP_POPULATE);
	else if (!strcmp(way, "mlock"))
		mlock(whole, size);
	else if (!fork())
		_exit(0);
	printf("free %.2f\n", now() - began);
	fflush(stdout);
	(void)!read(0, &byte, 1);
	return argc != 5;
}
