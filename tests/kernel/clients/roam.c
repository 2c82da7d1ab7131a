// SPDX-License-Identifier: Apache-2.0
/*
 * roam LIBRARY DIRECTORY CGROUPS ROUNDS SYMBOL...: an ordinary user with a cgroup of its own.
 *
 * Becomes nobody, and once it is told to makes CGROUPS cgroups within DIRECTORY. In each round it
 * goes through all of them, and calls every SYMBOL of LIBRARY once in each; with ROUNDS 0, until
 * its input ends. Says how many calls it made, and ends when it is told to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define SYMBOLS_MAX 1024

typedef int (*function_fn)(void *, long, long, long, long, long, long, long, void *, void *, void *);

static function_fn functions[SYMBOLS_MAX];
static const char *directory;

static void wait_for_word(void)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

static int ended(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

static int enter(long number)
{
	char path[4096];
	int file;

	snprintf(path, sizeof(path), "%s/%ld/cgroup.procs", directory, number);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1)
		return 0;
	close(file);
	return 1;
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	long cgroups = atol(argv[3]), rounds = atol(argv[4]), calls = 0;
	int symbols = argc - 5;

	if (!library || symbols > SYMBOLS_MAX) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	directory = argv[2];
	for (int i = 0; i < symbols; i++)
		functions[i] = (function_fn)dlsym(library, argv[i + 5]);
	if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		return 3;
	puts("{\"ready\": 1}");
	fflush(stdout);
	wait_for_word();
	for (long i = 0; i < cgroups; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/%ld", directory, i);
		if (mkdir(path, 0755)) {
			perror(path);
			return 4;
		}
	}
	for (long round = 0; rounds ? round < rounds : !ended(); round++)
		for (long i = 0; i < cgroups; i++) {
			if (!enter(i))
				return 5;
			for (int j = 0; j < symbols; j++, calls++)
				functions[j](NULL, 1, 1, 1, 1, 1, 1, 1, NULL, NULL, NULL);
		}
	if (!rounds)
		wait_for_word();
	printf("{\"calls\": %ld}\n", calls);
	fflush(stdout);
	wait_for_word();
	return 0;
}
