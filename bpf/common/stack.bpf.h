/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keeps a program that can be preempted on the stack of its task.
 *
 * Since Linux commit e00931c02568 ("bpf: Enable private stack for eligible subprogs") (v6.13),
 * the JIT gives programs of the kprobe type a stack per CPU. A uprobe program can be preempted
 * there by another task's, and the two overwrite each other's stack: the kernel oopses, or its
 * memory is corrupted. A program that has a tail call gets no such stack. This one is never
 * taken: the verifier sees that, and removes it.
 */
#ifndef COTENANT_STACK_BPF_H
#define COTENANT_STACK_BPF_H

#include "common/kernel.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} no_programs SEC(".maps");

const volatile bool_t take_tail_call = 0;

/* The first statement of every uprobe program. */
static __always_inline void use_task_stack(void *ctx)
{
	if (take_tail_call)
		bpf_tail_call(ctx, &no_programs, 0);
}

#endif /* COTENANT_STACK_BPF_H */
