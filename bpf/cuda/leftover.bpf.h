/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a process leaves behind when it ends, or when it becomes another program.
 */
#ifndef COTENANT_LEFTOVER_BPF_H
#define COTENANT_LEFTOVER_BPF_H

#include "cuda/context.bpf.h"
#include "cuda/timing.bpf.h"

static long capture_drop(void *map, __u64 *number, __u32 *pid, __u32 *whose)
{
	if (*pid == *whose)
		capture_close(*number, *whose);
	return 0;
}

/* Captures that it never ended. */
static __always_inline void captures_drop(__u32 pid)
{
	if (anybody_captures())
		bpf_for_each_map_elem(&captures, capture_drop, &pid, 0);
	bpf_map_delete_elem(&capturing, &pid);
}

static long holding_drop(void *map, struct holding_key *key, struct holding *value, __u32 *whose)
{
	if (key->pid == *whose)
		holding_empty(value);
	return 0;
}

static long primary_drop(void *map, struct primary_key *key, struct primary *value, __u32 *whose)
{
	struct primary_key gone = *key;

	if (gone.pid == *whose)
		bpf_map_delete_elem(&primaries, &gone);
	return 0;
}

/* The new program has no memory on a GPU, no context and no call under way. */
static __always_inline void program_drop(struct task_struct *task, __u32 pid)
{
	captures_drop(pid);
	bpf_for_each_map_elem(&holdings, holding_drop, &pid, 0);
	bpf_for_each_map_elem(&primaries, primary_drop, &pid, 0);
	bpf_task_storage_delete(&timings, task);
	bpf_task_storage_delete(&threads, task);
}

#endif /* COTENANT_LEFTOVER_BPF_H */
