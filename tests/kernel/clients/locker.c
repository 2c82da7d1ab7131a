// SPDX-License-Identifier: Apache-2.0
/*
 * locker FILE: keeps its own mappings locked for as long as a page of FILE does not come.
 *
 * One thread reads that page from the process's own memory, and has the mappings locked meanwhile;
 * another wants to map something, and since then nobody else may lock them. Says "locked", then
 * "free", and ends with its input.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static char *page;

static void *read_page(void *unused)
{
	int memory = open("/proc/self/mem", O_RDONLY);
	char byte;

	(void)!pread(memory, &byte, 1, (uintptr_t)page);
	return unused;
}

static void *map_more(void *unused)
{
	usleep(100000);
	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return unused;
}

int main(int argc, char **argv)
{
	int file = open(argv[argc - 1], O_RDONLY);
	pthread_t reader, mapper;
	char byte;

	page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
	if (page == MAP_FAILED)
		return 1;
	pthread_create(&mapper, NULL, map_more, NULL);
	pthread_create(&reader, NULL, read_page, NULL);
	usleep(300000);
	(void)!write(1, "locked\n", 7);
	pthread_join(reader, NULL);
	pthread_join(mapper, NULL);
	(void)!write(1, "free\n", 5);
	return (int)read(0, &byte, 1);
}
