/* SPDX-License-Identifier: Apache-2.0 */
/* EVERY(name): a function that starts as compilers start one, and returns `every_answer`. */
int every_answer;

#define EVERY(name)                                                                                \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                 \
		"push %rbp\nmov %rsp,%rbp\n"                                                       \
		"mov every_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\n"                          \
		"pop %rbp\nret\n.size " #name ",.-" #name "\n");
