// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What this kernel does, tried by the agent before anything is attached to others.
 */
#include "common/layout.h"
#include "common/stack.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* From 64 bytes on the kernel considers a private stack. */
#define WORDS 16

struct stack_place {
	__u64 frame;	/* an address in the stack of the program */
	__u64 task;	/* the lowest address of the stack of the task */
};

LAYOUT(stack_place);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_place);
} stack_places SEC(".maps");

/*
 * Where the stack of a uprobe program lies: run on a function of the agent's own. Nothing is
 * recorded unless it is the stack of the task.
 */
SEC("?uprobe")
int stack_trial(struct pt_regs *ctx)
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} allocated SEC(".maps");

/*
 * Whether programs may allocate memory: loaded, never run. Before v6.1 a perf_event program with
 * such a map is refused, and all others make the kernel warn of a deadlock.
 */
SEC("?perf_event")
int allocation_trial(void *ctx)
{
	__u32 zero = 0;

	bpf_map_lookup_elem(&allocated, &zero);
	return 0;
}
