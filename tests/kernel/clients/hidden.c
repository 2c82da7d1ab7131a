// SPDX-License-Identifier: Apache-2.0
/*
 * A driver library that hands out a function which it does not export, and worse: as told by
 * the environment, a place inside a function, or one in memory of no file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden"), noinline, used))

#ifdef TABLED
__asm__(".data\nstate: .long 0\n.align 8\nslot: .quad body\n.text\nbody: xor %eax,%eax\nret\n");
#define BODY(name)                                                                                 \
	__asm__(".text\n.p2align 4\n.type " name ",@function\n" name ":\n.cfi_startproc\n"          \
		"cmpl $0x321cba00,state(%rip)\nje 1f\njmp *slot(%rip)\n.p2align 3\n"               \
		"1: mov $4,%eax\nret\n.cfi_endproc\n.size " name ",.-" name "\n")
#else
#define BODY(name)                                                                                 \
	__asm__(".text\n.type " name ",@function\n" name ":\n.cfi_startproc\npush %rbp\n"          \
		".cfi_def_cfa_offset 16\n.cfi_offset 6, -16\nmov %rsp,%rbp\n.cfi_def_cfa_register 6\n" \
		"xor %eax,%eax\nnopw 0x0(%rax,%rax,1)\npop %rbp\n.cfi_def_cfa 7, 8\nret\n"         \
		".cfi_endproc\n.size " name ",.-" name "\n")
#endif

int launch_exported(void);
int launch_hidden(void);
__asm__(".globl cuLaunchKernel\n.set launch_exported, cuLaunchKernel\n");
BODY("cuLaunchKernel");
BODY("launch_hidden");

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
	const char *how = getenv("HIDDEN_HOW");
	char *page;

	if (strcmp(name, "cuLaunchKernel"))
		return 500;
	if (!how || !strcmp(how, "hidden")) {
		*out = (void *)launch_hidden;
	} else if (!strcmp(how, "inside")) {
		*out = (char *)launch_hidden + 2;
	} else if (!strcmp(how, "elsewhere")) {
		*out = (void *)strlen;
	} else {
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
		memcpy(page, "\x55\x31\xc0\x5d\xc3", 5);
		*out = page;
	}
	return 0;
}
