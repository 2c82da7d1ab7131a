// SPDX-License-Identifier: Apache-2.0
/*
 * registers LIBRARY NAMES COUNT SIZE WARM: registers so many kernels when it is told to, as the start of a
 * program does that nvcc has built, and launches some of them when it is told to once more.
 *
 * Names lie in a mapped file, SIZE bytes apart. Unless WARM is 1 nobody has touched them, as it is
 * with a library that was just loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define FIRST_HANDLE 0x10000
#define LAUNCHED 100

typedef void (*registers)(void *, uint64_t, const char *, const char *, int, void *, void *, void *,
			  void *, void *);
typedef int (*launches)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, void *, uint64_t, uint64_t);

static void told(const char *what)
{
	puts(what);
	fflush(stdout);
	while (getchar() != '\n')
		;
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	long count = strtol(argv[3], NULL, 10), size = strtol(argv[4], NULL, 10);
	registers add = (registers)dlsym(library, "__cudaRegisterFunction");
	launches launch = (launches)dlsym(library, "cudaLaunchKernel");
	const char *names = mmap(NULL, count * size, PROT_READ, MAP_PRIVATE,
				 open(argv[2], O_RDONLY), 0);

	if (argc != 6 || !library || names == MAP_FAILED)
		return 1;
	for (long i = 0; argv[5][0] == '1' && i < count * size; i += 4096)
		((volatile const char *)names)[i];
	told("loaded");
	for (long i = 0; i < count; i++)
		add(NULL, FIRST_HANDLE + 16 * i, names + i * size, names + i * size, -1, NULL, NULL,
		    NULL, NULL, NULL);
	told("registered");
	for (long i = 0; i < LAUNCHED; i++)
		launch(FIRST_HANDLE + 16 * (count / LAUNCHED) * i, 1, 1, 1, 1, NULL, 0, 0);
	told("launched");
	return 0;
}
