/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all programs share: the rings, the counters, and which cgroup a task is in.
 * A map of the same name is one map in every object; the loader sees to it.
 */
#ifndef COTENANT_PROBE_BPF_H
#define COTENANT_PROBE_BPF_H

#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "common/event.h"
#include "common/fact.h"
#include "common/tenant.h"
#include "common/total.h"

/* Rows. A reader that sleeps for a fixed time looks anyway: no wake-up per event. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

/* Who is who: cgroups and processes. Nothing that a tenant makes at will comes between. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} identities SEC(".maps");

/* What else rows depend on, each tenant within its share. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} facts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTER_END);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* Written by the agent while programs run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct control);
} controls SEC(".maps");

/* Cgroups that are left alone, with all that go by their id or have one for their tenant. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EXCLUDED_MAX);
	__type(key, __u64);
	__type(value, __u8);
} excluded SEC(".maps");

/*
 * Bumped when a process changes its cgroup: what its threads remember of theirs is then stale.
 * Processes share a few of these, so that one that moves all the time costs few others anything.
 */
#define MIGRATIONS 1024
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MIGRATIONS);
	__type(key, __u32);
	__type(value, __u64);
} migrations SEC(".maps");

/* Version 1 controllers that may name tenants, in the order in which they are asked. */
enum v1_controller {
	V1_CONTROLLER_memory = 0,
	V1_CONTROLLER_pids = 1,
	V1_CONTROLLER_cpu = 2,
	V1_CONTROLLER_freezer = 3,
	V1_CONTROLLER_devices = 4,
};

/* The one whose id rides along; -1 where version 2 names every tenant. */
const volatile __s32 v1_controller = -1;
const volatile __u32 v1_hierarchy = 0;

static __always_inline void count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	/* Atomic although per CPU: a probe may be preempted by another task's. */
	if (value)
		__sync_fetch_and_add(value, 1);
}

static __always_inline struct control *control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&controls, &zero);
}

static __always_inline __u64 *migrations_of(__u32 pid)
{
	__u32 place = pid % MIGRATIONS;

	return bpf_map_lookup_elem(&migrations, &place);
}

/* A call each time: who needs it more than once asks once. */
static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task_btf();
}

/* A task's name as two words: each load from a task costs a check of its own. */
static __always_inline void comm_copy(char *comm, const struct task_struct *task)
{
	const __u64 *words = (const __u64 *)task->comm;

	_Static_assert(sizeof(task->comm) == 16, "two words");
	((__u64 *)comm)[0] = words[0];
	((__u64 *)comm)[1] = words[1];
}

/* As bpf_get_current_cgroup_id() for a fraction of its cost: four loads instead of a call. */
static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->kn->id;
}

/* The address of the task's cgroup in the version 1 hierarchy that the agent chose. */
static __always_inline __u64 v1_cgroup(struct css_set *set)
{
	struct cgroup_subsys_state *state = NULL;

	switch (v1_controller) {
	case V1_CONTROLLER_memory:
		state = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]);
		break;
	case V1_CONTROLLER_pids:
		state = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id)]);
		break;
	case V1_CONTROLLER_cpu:
		state = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id)]);
		break;
	case V1_CONTROLLER_freezer:
		state = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, freezer_cgrp_id)]);
		break;
	case V1_CONTROLLER_devices:
		state = BPF_CORE_READ(set, subsys[bpf_core_enum_value(enum cgroup_subsys_id, devices_cgrp_id)]);
		break;
	}
	return state ? (__u64)BPF_CORE_READ(state, cgroup) : 0;
}

#endif /* COTENANT_PROBE_BPF_H */
