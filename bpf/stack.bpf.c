// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where the stack of a uprobe program lies on this kernel: the agent runs it once on a function
 * of its own, and records nothing unless it is the stack of the task.
 */
#include "stack.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* From 64 bytes on the kernel considers a private stack. */
#define WORDS 16

struct stack_place {
	__u64 frame;	/* an address in the stack of the program */
	__u64 task;	/* the lowest address of the stack of the task */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_place);
} stack_places SEC(".maps");

SEC("?uprobe") int stack_trial(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	struct stack_place *place;
	volatile __u64 words[WORDS];
	__u32 zero = 0;

	use_task_stack(ctx);
	for (int i = 0; i < WORDS; i++)
		words[i] = i;
	place = bpf_map_lookup_elem(&stack_places, &zero);
	if (!place)
		return 0;
	place->frame = (__u64)words;
	place->task = (__u64)task->stack;
	return 0;
}
