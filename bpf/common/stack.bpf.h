/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keeps a program that can be preempted on the stack of its task.
 *
 * Since Linux commit e00931c02568 ("bpf: Enable private stack for eligible subprogs") (v6.13),
 * the JIT gives programs of the kprobe type a stack per CPU. A uprobe program can be preempted
 * there by another task's, and the two overwrite each other's stack: the kernel oopses, or its
 * memory is corrupted. A program that has a tail call gets no such stack. This one is never
 * taken: the verifier sees that, and removes it before it asks where the call would go. So there
 * is no array of programs; the kernel would keep that for ever if somebody looked at it while we
 * end.
 */
#ifndef COTENANT_STACK_BPF_H
#define COTENANT_STACK_BPF_H

#include "common/kernel.h"
#include <bpf/bpf_helpers.h>

const volatile bool_t take_tail_call = 0;

/* The first statement of every uprobe program. */
static __always_inline void use_task_stack(void *ctx)
{
	if (take_tail_call)
		bpf_tail_call(ctx, NULL, 0);
}

#endif /* COTENANT_STACK_BPF_H */
