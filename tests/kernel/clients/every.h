/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EVERY(name): a function that starts as compilers start one, or with TABLED as drivers 470 to 555
 * do, and returns `every_answer`.
 */
int every_answer;

#ifdef TABLED
__asm__(".data\nevery_state: .long 0\n.align 8\nevery_slot: .quad every_body\n.text\n"
	"every_body: mov every_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\nret\n");
#define EVERY(name)                                                                                \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                 \
		"cmpl $0x321cba00,every_state(%rip)\nje 1f\njmp *every_slot(%rip)\n"              \
		"1: mov $4,%eax\nret\n.size " #name ",.-" #name "\n");
#else
#define EVERY(name)                                                                                \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                 \
		"push %rbp\nmov %rsp,%rbp\n"                                                       \
		"mov every_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\n"                          \
		"pop %rbp\nret\n.size " #name ",.-" #name "\n");
#endif
