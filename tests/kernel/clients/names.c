// SPDX-License-Identifier: Apache-2.0
/*
 * names LIBRARY THREADS: registers kernels without end, each with a name of 30 bytes; or, if the
 * library has none to register, looks up kernels by names of 900 bytes.
 *
 * Begins when it is told to, and when it is told again says how many it registered.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*register_fn)(void **, const char *, char *, const char *, int, void *, void *,
			    void *, void *, int *);

typedef int (*look_up_fn)(void **, void *, const char *);

static register_fn register_function;
static look_up_fn look_up;
static volatile int enough;

static void *run(void *made)
{
	char name[32], *at = made;
	long *count = made;

	for (*count = 0; !enough; ++*count) {
		snprintf(name, sizeof(name), "kernel_%023ld", *count);
		register_function(NULL, at + (*count << 4), name, name, -1, NULL, NULL, NULL, NULL,
				  NULL);
	}
	return NULL;
}

static void *run_look_up(void *made)
{
	char name[901];
	long *count = made;
	void *kernel;

	for (*count = 0; !enough; ++*count) {
		snprintf(name, sizeof(name), "kernel_%0893ld", *count);
		kernel = (char *)made + (*count << 4);
		look_up(&kernel, NULL, name);
	}
	return NULL;
}

static void wait_for_word(void)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	int threads = atoi(argv[2]);
	pthread_t ids[64];
	long made[64] = {}, all = 0;

	if (!library || threads > 64) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	register_function = (register_fn)dlsym(library, "__cudaRegisterFunction");
	look_up = (look_up_fn)dlsym(library, "cuModuleGetFunction");
	puts("{\"ready\": 1}");
	fflush(stdout);
	wait_for_word();
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, register_function ? run : run_look_up, &made[i]);
	wait_for_word();
	enough = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		all += made[i];
	}
	printf("{\"registered\": %ld}\n", all);
	fflush(stdout);
	wait_for_word();
	return 0;
}
