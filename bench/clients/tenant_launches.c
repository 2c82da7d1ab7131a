// SPDX-License-Identifier: Apache-2.0
/*
 * tenant_launches LOOPED PACED: for a line of input, launches LOOPED times without a pause, then PACED
 * times at one per 200 us; prints what the calls took, as JSON.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EVERY_NS 200000

struct dim3 {
	unsigned int x, y, z;
};

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *,
			    void *, int *);
int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);
int cudaDeviceSynchronize(void);

static const struct dim3 grid = { 5, 1, 1 }, block = { 32, 1, 1 };

static void step(float *p) __asm__("_Z4stepPf");

static void __attribute__((noinline, used)) step(float *p)
{
	cudaLaunchKernel((const void *)step, grid, block, NULL, 0, NULL);
}

static void __attribute__((constructor)) register_all(void)
{
	static struct {
		int magic, version;
		const void *data;
		void *unused;
	} fatbin = { 0x466243b1, 1, "fatbin", NULL };
	void **handle = __cudaRegisterFatBinary(&fatbin);

	__cudaRegisterFunction(handle, (const char *)step, "_Z4stepPf", "_Z4stepPf", -1, NULL, NULL,
			       NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	const uint32_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static uint32_t launched(void)
{
	uint64_t began = now();

	step(NULL);
	return (uint32_t)(now() - began);
}

int main(int argc, char **argv)
{
	int looped = argc > 1 ? atoi(argv[1]) : 200000, paced = argc > 2 ? atoi(argv[2]) : 4000;
	uint32_t *took = calloc((size_t)looped + paced, sizeof(*took));
	uint64_t began, sum, next;
	char line[16];

	/* The first call makes a context. */
	step(NULL);
	cudaDeviceSynchronize();
	puts("{}");
	fflush(stdout);
	while (took && fgets(line, sizeof(line), stdin)) {
		began = now();
		for (int i = 0; i < looped; i++)
			took[i] = launched();
		sum = now() - began;
		next = now();
		for (int i = 0; i < paced; i++) {
			struct timespec until;

			next += EVERY_NS;
			until.tv_sec = (time_t)(next / 1000000000);
			until.tv_nsec = (long)(next % 1000000000);
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
			took[looped + i] = launched();
		}
		qsort(took, (size_t)looped, sizeof(*took), ascending);
		qsort(took + looped, (size_t)paced, sizeof(*took), ascending);
		printf("{\"mean_us\": %.3f, \"p99_us\": %.3f, \"paced_median_us\": %.3f}\n",
		       (double)sum / looped / 1000, took[looped * 99L / 100] / 1000.0,
		       took[looped + paced / 2] / 1000.0);
		fflush(stdout);
	}
	free(took);
	return 0;
}
