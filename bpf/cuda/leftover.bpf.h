/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a process leaves behind when it ends, or when it becomes another program.
 *
 * What is wrong at once goes at once: captures, and what a program held. The rest is only in the
 * way; the agent has it swept out now and then.
 */
#ifndef COTENANT_LEFTOVER_BPF_H
#define COTENANT_LEFTOVER_BPF_H

#include "cuda/context.bpf.h"
#include "cuda/timing.bpf.h"

static long capture_drop(void *map, __u64 *number, struct capture *capture, __u32 *whose)
{
	if (capture->pid == *whose)
		capture_close(*number, *whose);
	return 0;
}

/* Captures that it never ended. */
static __always_inline void captures_drop(__u32 pid)
{
	if (anybody_captures())
		bpf_for_each_map_elem(&captures, capture_drop, &pid, 0);
}

static long holding_drop(void *map, struct holding_key *key, struct holding *value, __u32 *whose)
{
	if (key->pid == *whose)
		holding_empty(value);
	return 0;
}

static long primary_leave(void *map, struct primary_key *key, struct primary *value, __u32 *whose)
{
	struct primary_key gone = *key;

	if (gone.pid == *whose)
		primary_drop(&gone, value->tenant);
	return 0;
}

/* The new program has no memory on a GPU, no context and no call under way. */
static __always_inline void program_drop(struct task_struct *task, __u32 pid)
{
	captures_drop(pid);
	bpf_for_each_map_elem(&holdings, holding_drop, &pid, 0);
	bpf_for_each_map_elem(&primaries, primary_leave, &pid, 0);
	bpf_task_storage_delete(&timings, task);
	bpf_task_storage_delete(&threads, task);
}

static long sweep_member(void *map, struct member_key *key, struct member *value, void *none)
{
	struct member_key gone = *key;
	__u64 tenant = value->tenant, number = value->capture;

	if (!bpf_map_lookup_elem(&captures, &number) && !bpf_map_delete_elem(&members, &gone))
		quota_give(tenant, QUOTA_members);
	return 0;
}

static long sweep_allocation(void *map, struct allocation_key *key, struct allocation *value,
			     void *none)
{
	struct allocation_key gone = *key;
	__u64 tenant = value->tenant;

	if (!process_of(gone.pid, value->process_start_ns))
		allocation_drop(&gone, tenant);
	return 0;
}

static long sweep_holding(void *map, struct holding_key *key, struct holding *value, void *none)
{
	struct holding_key gone = *key;
	__u64 tenant = value->tenant;

	if (!process_of(gone.pid, gone.process_start_ns) && !bpf_map_delete_elem(&holdings, &gone))
		quota_give(tenant, QUOTA_holdings);
	return 0;
}

static long sweep_moment(void *map, struct moment_key *key, struct moment *value, void *none)
{
	struct moment_key gone = *key;
	__u64 tenant = value->tenant;

	if (!process_of(gone.pid, gone.process_start_ns))
		moment_delete(&gone, tenant);
	return 0;
}

static long sweep_primary(void *map, struct primary_key *key, struct primary *value, void *none)
{
	struct primary_key gone = *key;
	__u64 tenant = value->tenant;

	if (!process_of(gone.pid, value->process_start_ns))
		primary_drop(&gone, tenant);
	return 0;
}

/* Entries of processes that have ended, and of captures that are over. */
static __always_inline void sweep_all(void)
{
	bpf_for_each_map_elem(&members, sweep_member, NULL, 0);
	bpf_for_each_map_elem(&allocations, sweep_allocation, NULL, 0);
	bpf_for_each_map_elem(&holdings, sweep_holding, NULL, 0);
	bpf_for_each_map_elem(&moments, sweep_moment, NULL, 0);
	bpf_for_each_map_elem(&primaries, sweep_primary, NULL, 0);
}

#endif /* COTENANT_LEFTOVER_BPF_H */
