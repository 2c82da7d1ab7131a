// SPDX-License-Identifier: Apache-2.0
/*
 * A program as nvcc makes them, written by hand: `alpha` is launched by the address of its host
 * function, as nvcc 12 does, `beta` by a handle that its stub keeps, as nvcc 13 does.
 *
 * stubs: launches each three times, says so, and for each line of input LAUNCHES times more.
 */
#include <stdio.h>
#include <stdlib.h>

struct dim3 {
	unsigned int x, y, z;
};

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *,
			    void *, int *);
int __cudaGetKernel(void **, const void *);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int __cudaLaunchKernel(void *, struct dim3, struct dim3, void **, size_t, void *);

static const struct dim3 grid = { 5, 1, 1 }, block = { 32, 1, 1 };
static void *beta_handle __asm__("_ZZ23__device_stub__Z4betaPfPfE8__handle");

static void alpha(float *p) __asm__("_Z5alphaPf");
static void beta(float *p) __asm__("_Z4betaPf");

static void __attribute__((noinline, used)) alpha(float *p)
{
	cudaLaunchKernel((const void *)alpha, grid, block, NULL, 0, NULL);
}

static void __attribute__((noinline, used)) beta(float *p)
{
	if (!beta_handle)
		__cudaGetKernel(&beta_handle, (const void *)beta);
	__cudaLaunchKernel(beta_handle, grid, block, NULL, 0, NULL);
}

static void __attribute__((constructor)) register_all(void)
{
	static struct {
		int magic, version;
		const void *data;
		void *unused;
	} fatbin = { 0x466243b1, 1, "fatbin", NULL };
	void **handle = __cudaRegisterFatBinary(&fatbin);

	__cudaRegisterFunction(handle, (const char *)alpha, "_Z5alphaPf", "_Z5alphaPf", -1, NULL,
			       NULL, NULL, NULL, NULL);
	__cudaRegisterFunction(handle, (const char *)beta, "_Z4betaPf", "_Z4betaPf", -1, NULL, NULL,
			       NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);
}

static void launch(int times)
{
	for (int i = 0; i < times; i++) {
		alpha(NULL);
		beta(NULL);
	}
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 7;
	char line[16];

	launch(3);
	printf("{\"alpha\":%lu}\n", (unsigned long)alpha);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		launch(times);
		printf("{\"launched\":%d}\n", times);
		fflush(stdout);
	}
	return 0;
}
