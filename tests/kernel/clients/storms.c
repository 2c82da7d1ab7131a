/*
 * Calls a GPU as fast as it can, and counts that in a file that outlives it:
 *
 *     storms FILE SHAPE CALLS [then exec|fork|silent|more]
 *
 * SHAPE is kernel, kernels (eight in turn, by the runtime), graph or copies. The file has what was
 * called so far: all, bytes, by kernel, and by second since the Unix epoch modulo SECONDS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KERNELS 8
#define SECONDS 1024

struct dim3 {
	unsigned x, y, z;
};

struct counts {
	volatile uint64_t begun, done, bytes, kernels[KERNELS], seconds[SECONDS];
};

static struct counts *counts;
static void *library;
static uint64_t kernels[KERNELS], made, stream;
static char *host;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return found;
}

#define CALL(name, ...)                                                                            \
	do {                                                                                       \
		int (*function)() = (int (*)())symbol(#name);                                      \
		int error = function(__VA_ARGS__);                                                 \
                                                                                                   \
		if (error) {                                                                       \
			fprintf(stderr, #name ": %d\n", error);                                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static void open_driver(int captures)
{
	uint64_t context, module, graph;
	char name[16];

	library = dlopen("libcuda.so.1", RTLD_NOW);
	CALL(cuInit, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, 0);
	CALL(cuCtxSetCurrent, context);
	CALL(cuModuleLoadData, &module, "image");
	CALL(cuStreamCreate, &stream, 1);
	for (int i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "storm%d", i);
		CALL(cuModuleGetFunction, &kernels[i], module, name);
	}
	CALL(cuMemAlloc_v2, &made, (size_t)1 << 20);
	CALL(cuMemAllocHost_v2, &host, (size_t)1 << 20);
	if (!captures)
		return;
	CALL(cuStreamBeginCapture_v2, stream, 0);
	CALL(cuLaunchKernel, kernels[0], 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
	CALL(cuStreamEndCapture, stream, &graph);
	CALL(cuGraphInstantiateWithFlags, &made, graph, (uint64_t)0);
}

static void open_runtime(void)
{
	static const struct {
		int magic, version;
		const void *data;
		void *unused;
	} wrapper = { 0x466243b1, 1, "no device code here", NULL };
	static char names[KERNELS][16];
	void **(*binary)(const void *);
	void (*end)(void **), (*function)();
	void **all;

	library = dlopen("libcudart.so.12", RTLD_NOW);
	binary = (void **(*)(const void *))symbol("__cudaRegisterFatBinary");
	function = (void (*)())symbol("__cudaRegisterFunction");
	end = (void (*)(void **))symbol("__cudaRegisterFatBinaryEnd");
	all = binary(&wrapper);
	for (int i = 0; i < KERNELS; i++) {
		snprintf(names[i], sizeof(names[i]), "storm%d", i);
		kernels[i] = (uint64_t)names[i];
		function(all, names[i], names[i], names[i], -1, NULL, NULL, NULL, NULL, NULL);
	}
	end(all);
	CALL(cudaSetDevice, 0);
}

static void storm(const char *shape, uint64_t calls)
{
	int (*launch)() = NULL, (*graph)() = NULL, (*copy)() = NULL;
	int (*run)(const void *, struct dim3, struct dim3, void **, size_t, void *) = NULL;
	struct dim3 one = { 1, 1, 1 };
	uint64_t second = 0;

	if (shape[0] == 'g')
		graph = (int (*)())symbol("cuGraphLaunch");
	else if (shape[0] == 'c')
		copy = (int (*)())symbol("cuMemcpyHtoDAsync_v2");
	else if (shape[6])
		run = (int (*)(const void *, struct dim3, struct dim3, void **, size_t,
			       void *))symbol("cudaLaunchKernel");
	else
		launch = (int (*)())symbol("cuLaunchKernel");
	for (uint64_t i = 0; i < calls; i++) {
		size_t bytes = 0;
		int error;

		second = time(NULL) % SECONDS;
		counts->begun++;
		if (graph) {
			error = graph(made, stream);
		} else if (copy) {
			bytes = 16 + i % 7;
			error = copy(made, host, bytes, stream);
		} else if (run) {
			error = run((void *)kernels[i % KERNELS], one, one, NULL, 0, NULL);
		} else {
			error = launch(kernels[0], 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
		}
		if (error)
			exit(1);
		counts->done++;
		counts->bytes += bytes;
		counts->seconds[second]++;
		counts->kernels[run ? i % KERNELS : 0]++;
	}
}

int main(int argc, char **argv)
{
	const char *then = argc > 4 ? argv[4] : "";
	int file = open(argv[1], O_RDWR | O_CREAT, 0666);
	uint64_t calls = strtoull(argv[3], NULL, 10);

	if (file < 0 || ftruncate(file, sizeof(*counts)))
		return 1;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (!strcmp(argv[2], "kernels"))
		open_runtime();
	else
		open_driver(argv[2][0] == 'g');
	puts("ready");
	fflush(stdout);
	storm(argv[2], calls);
	if (!strcmp(then, "exec"))
		execl("/proc/self/exe", argv[0], argv[1], argv[2], argv[3], NULL);
	if (!strcmp(then, "fork")) {
		if (fork() == 0)
			_exit(0);
		wait(NULL);
		storm(argv[2], calls / 3);
	}
	puts("over");
	fflush(stdout);
	if (!strcmp(then, "silent"))
		getchar();
	_exit(0);
}
