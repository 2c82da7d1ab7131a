// SPDX-License-Identifier: Apache-2.0
/* Reaches the driver as Triton does: dlopen, cuGetProcAddress, nothing linked. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*get_fn)(const char *, void **, int, unsigned long, void *);
typedef int (*any_fn)();

static get_fn get;

static any_fn find(const char *name)
{
	void *found = NULL;

	if (get(name, &found, 12080, 0, NULL) || !found) {
		fprintf(stderr, "no %s\n", name);
		exit(2);
	}
	return (any_fn)found;
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int times = argc > 1 ? atoi(argv[1]) : 1;
	void *context, *module, *function;
	int device;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	get = (get_fn)dlsym(library, "cuGetProcAddress_v2");
	find("cuInit")(0);
	find("cuDeviceGet")(&device, 0);
	find("cuDevicePrimaryCtxRetain")(&context, device);
	find("cuCtxSetCurrent")(context);
	find("cuModuleLoadData")(&module, "image");
	find("cuModuleGetFunction")(&function, module, "_Z10add_kernelPfS_i");
	for (int i = 0; i < times; i++)
		((int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
			  void **, void **))find("cuLaunchKernel"))(function, 11, 1, 1, 128, 1, 1, 0, NULL,
								    NULL, NULL);
	return find("cuCtxSynchronize")();
}
