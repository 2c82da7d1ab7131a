// SPDX-License-Identifier: Apache-2.0
/*
 * locker [-m OTHER] [-f] FILE: keeps its own mappings locked for as long as a page of FILE does not come.
 *
 * One thread reads that page from the process's own memory, and has the mappings locked meanwhile;
 * another wants to map something, and since then nobody else may lock them. Says "locked", then
 * "free", and ends with its input. -m: has a page of OTHER mapped, too. -f: another thread forks.
 */
#include <fcntl.h>
#include <getopt.h>
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

static void *fork_once(void *unused)
{
	usleep(150000);
	if (!fork())
		_exit(0);
	return unused;
}

static char *map_page(const char *path)
{
	return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(path, O_RDONLY), 0);
}

int main(int argc, char **argv)
{
	pthread_t reader, mapper, forker;
	int option, forks = 0;
	char byte;

	while ((option = getopt(argc, argv, "m:f")) != -1) {
		if (option == 'f')
			forks = 1;
		else if (option != 'm' || map_page(optarg) == MAP_FAILED)
			return 1;
	}
	page = map_page(argv[optind]);
	if (page == MAP_FAILED)
		return 1;
	pthread_create(&mapper, NULL, map_more, NULL);
	if (forks)
		pthread_create(&forker, NULL, fork_once, NULL);
	pthread_create(&reader, NULL, read_page, NULL);
	usleep(300000);
	(void)!write(1, "locked\n", 7);
	pthread_join(reader, NULL);
	pthread_join(mapper, NULL);
	if (forks)
		pthread_join(forker, NULL);
	(void)!write(1, "free\n", 5);
	return (int)read(0, &byte, 1);
}
