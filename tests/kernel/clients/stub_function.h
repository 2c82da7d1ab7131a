/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STUB(name): a function that returns `stub_answer`. It starts as in driver 580, with TABLED as in
 * 470 to 570, with CHECKED as in 595 and newer.
 */
int stub_answer;

#if defined(TABLED)
#define STUB_ENTRY(name) "cmpl $0x321cba00,stub_state(%rip)\nje 1f\njmp *slot_" name "(%rip)\n"
#elif defined(CHECKED)
#define STUB_ENTRY(name)                                                                           \
	"cmpl $0x321cba00,stub_state(%rip)\nje 1f\npush %rbp\nmov %rsp,%rbp\nsub $16,%rsp\n"       \
	"call *slot_" name "(%rip)\nleave\nret\n"
#else
#define STUB_ENTRY(name)                                                                           \
	"push %rbp\nmov %rsp,%rbp\ncmpl $0x321cba00,stub_state(%rip)\nje 2f\n"                     \
	"call *slot_" name "(%rip)\nleave\nret\n2:leave\n"
#endif
#define STUB(name)                                                                                 \
	__asm__(".data\n.align 8\nslot_" #name ": .quad body_" #name "\n.text\n"                   \
		".type body_" #name ",@function\nbody_" #name ":\npush %rbp\nmov %rsp,%rbp\n"     \
		"mov stub_answer@GOTPCREL(%rip),%rax\nmov (%rax),%eax\npop %rbp\nret\n"           \
		".size body_" #name ",.-body_" #name "\n"                                         \
		".globl " #name "\n.type " #name ",@function\n" #name ":\n" STUB_ENTRY(#name)     \
		"1: mov $4,%eax\nret\n.size " #name ",.-" #name "\n");
__asm__(".data\nstub_state: .long 0\n.text\n");
