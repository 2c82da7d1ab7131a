/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is remembered of every thread on the host between two switches, and which threads and
 * tenants use a GPU library: those are recorded in full.
 */
#ifndef COTENANT_SCHED_BPF_H
#define COTENANT_SCHED_BPF_H

#include "common/total.bpf.h"

#define SAY_TIMES 32	/* runs on a CPU, after which what the thread did goes into the totals */

struct sched_task {
	/* Whose it is, as of this css_set, and of what was known of tenants and migrations. */
	struct whose whose;
	__u64 cgroups;
	__u64 version;
	__u64 on_since;
	/* Not in the totals yet: said every few switches, or once it is much or old. */
	__u64 said_ns;
	__u64 on_ns;
	__u64 off_ns;
	__u32 on_times;
	__u32 off_times;
	/* Waits for a CPU: at most one before each run. */
	__u64 wait_ns;
	__u64 wait_max_ns;
	__u32 wait_times;
	/* How many of them were to become rows, and did not: the budget had no room. */
	__u32 waits_withheld;
	__u32 offs_withheld;
	__u8 wait_buckets[SAY_TIMES];
	__u64 off_since;
	__u64 runnable_since;
	/* When it was last woken, and when it last came on a CPU. */
	__u64 woken_ns;
	__u64 came_ns;
	/* Of its waits: up to where the present one is told, and what nobody is known to have had. */
	__u64 told_until;
	__u64 nobody_ns;
	/* The same of one peer: less than HAD_NS, or it is in the totals. */
	__u64 had_ns;
	__u64 had_cgroup_id;
	__u64 had_v1_id;
	/* Who got the CPU when it left. */
	__u64 taker_cgroup_id;
	__u64 taker_v1_id;
	__u32 taker_pid;
	__u16 state;
	__u8 gpu;
	__u8 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sched_task);
} sched_tasks SEC(".maps");

/*
 * Version 2 cgroups with a thread that called a GPU library, by the ids that they go by: a tenant
 * has no more of those than its quota of cgroups.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} gpu_tenants SEC(".maps");

static __always_inline bool_t tenant_uses_gpu(__u64 cgroup_id)
{
	return bpf_map_lookup_elem(&gpu_tenants, &cgroup_id) != NULL;
}

static __always_inline void gpu_tenant_mark(__u64 cgroup_id)
{
	__u8 yes = 1;

	if (!bpf_map_lookup_elem(&gpu_tenants, &cgroup_id))
		bpf_map_update_elem(&gpu_tenants, &cgroup_id, &yes, BPF_ANY);
}

/* The current thread calls a GPU library: seldom run, once in the life of a thread. */
static __always_inline void gpu_mark(struct task_struct *task)
{
	struct sched_task *sched;
	struct whose whose = {};

	sched = bpf_task_storage_get(&sched_tasks, (void *)task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (sched)
		sched->gpu = 1;
	whose_task(&whose, task);
	gpu_tenant_mark(whose.cgroup_id);
}

#endif /* COTENANT_SCHED_BPF_H */
