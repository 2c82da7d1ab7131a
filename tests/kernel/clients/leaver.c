// SPDX-License-Identifier: Apache-2.0
/*
 * leaver LIBRARY JUMPS THREADS AGAIN: leaves calls by other ways than a return.
 *
 * Jumps out of JUMPS calls, has THREADS threads end inside one each, and starts itself anew inside
 * another, which then makes AGAIN calls that return. With -DLIBRARY: the library, whose function
 * does what it is told while it is being called.
 */
#include <stddef.h>

typedef int (*call_fn)(void (*inside)(void));

#ifdef LIBRARY
int cuLaunchKernel(void (*inside)(void))
{
	return 0;
}

int cuStreamSynchronize(void (*inside)(void))
{
	if (inside)
		inside();
	return 0;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static call_fn call;
static jmp_buf outside;
static char **words;

static void jump(void)
{
	longjmp(outside, 1);
}

static void end(void)
{
	pthread_exit(NULL);
}

static void start_again(void)
{
	execl("/proc/self/exe", words[0], words[1], "0", "0", words[4], NULL);
}

static void *in_thread(void *unused)
{
	call(end);
	return unused;
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	pthread_t thread;

	if (!library)
		return 2;
	words = argv;
	call = (call_fn)dlsym(library, "cuStreamSynchronize");
	if (!atoi(argv[2])) {
		for (int i = 0; i < atoi(argv[4]); i++)
			call(NULL);
		return 0;
	}
	puts("mapped");
	fflush(stdout);
	getchar();
	for (volatile int i = 0; i < atoi(argv[2]); i++)
		if (!setjmp(outside))
			call(jump);
	for (int i = 0; i < atoi(argv[3]); i++) {
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	}
	call(start_again);
	return 3;
}
#endif
