// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels by their mangled names. As in code made by nvcc, the host function that
 * stands for a kernel is a symbol of the same name in the program.
 */
#include "workload.h"

#define KERNEL_LIST(X) \
	X(0, "_Z11gemm_kernelIfEvPKT_S2_PS0_iii") \
	X(1, "_Z14softmax_kernelPKfPfi") \
	X(2, "_Z16layernorm_kernelPKfS0_S0_Pfi") \
	X(3, "_Z11adam_updatePfPKfS_S_fi") \
	X(4, "_Z13flash_forwardILi128EEvPKfS1_S1_Pfi") \
	X(5, "_Z14flash_backwardILi128EEvPKfS1_S1_Pfi") \
	X(6, "_Z12dropout_maskPjmf") \
	X(7, "_Z15embedding_fetchPKfPKiPfi") \
	X(8, "_ZN7vectors3addEPKfS1_Pfi") \
	X(9, "_ZN7vectors5scaleIdEEvPT_S1_i") \
	X(10, "_Z10reduce_sumIfEvPKT_PS0_i") \
	X(11, "_Z12transpose_2dPfPKfii") \
	X(12, "_Z12quantize_fp8PKfPhfi") \
	X(13, "_Z12rotary_cachePKfPfi") \
	X(14, "_Z11topk_logitsPKfPii") \
	X(15, "_Z11copy_kernelPKfPf")

#define NAME(i, name) name,
const char *const kernel_names[KERNELS] = { KERNEL_LIST(NAME) };

#define STUB(i, name) \
	void stub_##i(void) __asm__(name); \
	__attribute__((noinline)) void stub_##i(void) \
	{ \
		__asm__ volatile("" : : "i"(i)); \
	}
KERNEL_LIST(STUB)

#define ADDRESS(i, name) stub_##i,
void (*const kernel_stubs[KERNELS])(void) = { KERNEL_LIST(ADDRESS) };
