// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Does anybody write to the stack of a running program? It fills its stack with its own task's
 * number, lets time pass, and looks whether it is still there: once as our programs are, once
 * without what keeps them on the stack of their task.
 */
#include "common/stack.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define WORDS 16
#define TURNS 400

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} canaries SEC(".maps");

static __always_inline void add(__u32 which)
{
	__u64 *value = bpf_map_lookup_elem(&canaries, &which);

	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline int watch_stack(void)
{
	__u64 me = bpf_get_current_pid_tgid();
	volatile __u64 words[WORDS];
	__u64 wrong = 0;

	for (int i = 0; i < WORDS; i++)
		words[i] = me;
	for (int turn = 0; turn < TURNS; turn++)
		wrong |= words[turn % WORDS] ^ me;
	for (int i = 0; i < WORDS; i++)
		wrong |= words[i] ^ me;
	add(0);
	if (wrong)
		add(1);
	return 0;
}

SEC("?uprobe")
int guarded(struct pt_regs *ctx)
{
	use_task_stack(ctx);
	return watch_stack();
}

SEC("?uprobe")
int unguarded(struct pt_regs *ctx)
{
	return watch_stack();
}
