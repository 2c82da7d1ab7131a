// SPDX-License-Identifier: Apache-2.0
/*
 * holder LIBRARY DELAY_MS WAY SIZE_MIB|FILE: maps a library as code, and so long after it keeps its
 * memory locked: by "populate" or "mlock" of so much memory, a "fork" of it, or by reading a page of
 * a "fuse" file from its own memory.
 *
 * Says "mapped", "free" when it is over, with the seconds that it took, and ends with its input.
 */
#include <fcntl.h>
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

int main(int argc, char **argv)
{
	const char *way = argv[3];
	size_t size = (size_t)atoi(argv[4]) << 20;
	void *page = NULL, *whole = NULL;
	double began;
	char byte;
	int own;

	own = open("/proc/self/mem", O_RDONLY);
	if (!strcmp(way, "fuse"))
		page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[4], O_RDONLY), 0);
	else if (!strcmp(way, "mlock"))
		whole = memory(size, 0);
	else if (!strcmp(way, "fork"))
		memset(whole = memory(size, 0), 1, size);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(argv[1], O_RDONLY), 0) ==
	    MAP_FAILED)
		return 2;
	printf("mapped\n");
	fflush(stdout);
	usleep(atoi(argv[2]) * 1000);
	began = now();
	if (page)
		(void)!pread(own, &byte, 1, (uintptr_t)page);
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
