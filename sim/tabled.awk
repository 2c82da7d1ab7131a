# SPDX-License-Identifier: Apache-2.0
# Lines of an exported name and what it is called inside, into the exported functions.
BEGIN {
	print ".section .note.GNU-stack,\"\",@progbits"
	print ".data\nlibrary_state: .long 0\n.text"
}
{
	printf ".p2align 4\n.globl %s\n.type %s,@function\n%s:\n", $1, $1, $1
	printf "\tcmpl $0x321cba00,library_state(%%rip)\n\tje 1f\n\tjmp *slot_%s(%%rip)\n", $1
	printf "\t.p2align 3\n1:\tmov $4,%%eax\n\tret\n.size %s,.-%s\n", $1, $1
	printf ".section .data.rel.ro,\"aw\"\nslot_%s: .quad %s\n.text\n", $1, $2
}
