/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STUB(name): a function that starts as compilers start one, or with TABLED as drivers 470 to 555
 * do, and returns `stub_answer`.
 */
int stub_answer;

#ifdef TABLED
__asm__(".data\nstub_state: .long 0\n.align 8\nstub_slot: .quad stub_body\n.text\n"
	"stub_body: mov stub_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\nret\n");
#define STUB(name)                                                                                \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                 \
		"cmpl $0x321cba00,stub_state(%rip)\nje 1f\njmp *stub_slot(%rip)\n"              \
		"1: mov $4,%eax\nret\n.size " #name ",.-" #name "\n");
#else
#define STUB(name)                                                                                \
	__asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                 \
		"push %rbp\nmov %rsp,%rbp\n"                                                       \
		"mov stub_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\n"                          \
		"pop %rbp\nret\n.size " #name ",.-" #name "\n");
#endif
