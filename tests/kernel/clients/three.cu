// Three kernels, one of them a template, launched a known number of times each.
#include <cstdio>
#include <cstdlib>

__global__ void scale(float *x, float by, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		x[i] *= by;
}

template <typename T, int N> __global__ void accumulate(T *x)
{
	for (int i = 0; i < N; i++)
		x[threadIdx.x] += i;
}

namespace deep
{
__global__ void inside(int *x) { *x = 1; }
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	float *x;

	cudaMalloc(&x, 4096);
	for (int i = 0; i < times; i++) {
		scale<<<dim3(3, 2, 1), dim3(32, 4, 1), 64>>>(x, 2.0f, 96);
		accumulate<float, 7><<<5, 96>>>(x);
		accumulate<double, 3><<<1, 8>>>((double *)x);
		deep::inside<<<1, 1>>>((int *)x);
	}
	cudaDeviceSynchronize();
	cudaFree(x);
	return 0;
}
