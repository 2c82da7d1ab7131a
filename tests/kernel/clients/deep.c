// SPDX-License-Identifier: Apache-2.0
/* A library whose functions call each other, one deeper than calls are followed. */
#include <unistd.h>

int cuMemcpy(void);
int cuMemsetD32_v2(void);
int cuMemsetD16_v2(void);
int cuMemsetD8_v2(void);

int cuMemcpy(void)
{
	return getppid() == 0;
}

int cuMemsetD32_v2(void)
{
	return cuMemcpy();
}

int cuMemsetD16_v2(void)
{
	return cuMemsetD32_v2();
}

int cuMemsetD8_v2(void)
{
	return cuMemsetD16_v2();
}

int cuLaunchKernel(void)
{
	return cuMemsetD8_v2();
}
