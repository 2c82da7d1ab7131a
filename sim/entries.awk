# SPDX-License-Identifier: Apache-2.0
# Lines of an exported name and what it is called inside, into the exported functions, with the
# first instructions of NVIDIA's drivers: shape=tabled (470 to 570), framed (580), checked (595 on).
BEGIN {
	print ".section .note.GNU-stack,\"\",@progbits"
	print ".data\nlibrary_state: .long 0\n.text"
	check = "\tcmpl $0x321cba00,library_state(%rip)\n\tje 1f\n"
}

# Calls by the slot. Arguments on the stack are passed on: up to eight. Memory functions have none.
function call(name, first, last,    text, at) {
	text = first
	if (name !~ /^cu(Mem(Alloc|Free|Map|Unmap)|ModuleGetGlobal|LibraryGetGlobal)/)
		for (at = 72; at >= 16; at -= 8)
			text = text sprintf("\tpushq %d(%%rbp)\n", at)
	return text sprintf("\tcall *slot_%s(%%rip)\n", name) last
}

function begin(name) {
	if (shape == "tabled")
		return check sprintf("\tjmp *slot_%s(%%rip)\n", name)
	if (shape == "framed")
		return call(name, "\tpush %rbp\n\tmov %rsp,%rbp\n\tpush %r12\n\tsub $8,%rsp\n" check,
			"\tmov %eax,%r12d\n2:\tmov %r12d,%eax\n\tmov -8(%rbp),%r12\n\tleave\n\tret\n")
	return call(name, check "\tpush %rbp\n\tmov %rsp,%rbp\n\tsub $16,%rsp\n", "\tleave\n\tret\n")
}

function shut_down() {
	return shape == "framed" ? "\tmov $4,%r12d\n\tjmp 2b\n" : "\tmov $4,%eax\n\tret\n"
}

{
	printf ".p2align 4\n.globl %s\n.type %s,@function\n%s:\n%s", $1, $1, $1, begin($1)
	printf "\t.p2align 3\n1:%s.size %s,.-%s\n", shut_down(), $1, $1
	printf ".section .data.rel.ro,\"aw\"\nslot_%s: .quad %s\n.text\n", $1, $2
}
