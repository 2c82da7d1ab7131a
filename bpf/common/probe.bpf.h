/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all programs share: the two rings, the totals, the counters, and the header of an event.
 * A map of the same name is one map in every object; the loader sees to it.
 */
#ifndef COTENANT_PROBE_BPF_H
#define COTENANT_PROBE_BPF_H

#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "common/event.h"
#include "common/fact.h"
#include "common/total.h"

/* Rows. A reader that sleeps for a fixed time looks anyway: no wake-up per event. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

/* What rows depend on. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} facts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, struct total_key);
	__type(value, struct total);
} totals SEC(".maps");

/*
 * Where memory for a new total cannot be had at once, as with interrupts off: a few that are
 * there already. The agent adds both up.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct total_key);
	__type(value, struct total);
} spare_totals SEC(".maps");

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

/* Tenants that asked to be left alone, by version 2 cgroup id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} excluded SEC(".maps");

enum excluded_key {
	EXCLUDED_HIERARCHY_SHIFT = 56,
};

/* Bumped when any task changes its cgroup: what a thread remembers of its own is then stale. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
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

/* A call each time: who needs it more than once asks once. */
static __always_inline struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task_btf();
}

/* As bpf_get_current_cgroup_id() for a fraction of its cost: four loads instead of a call. */
static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->kn->id;
}

/* The task's cgroup in the version 1 hierarchy that the agent chose. */
static __always_inline __u64 v1_cgroup_id(struct css_set *set)
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
	return state ? BPF_CORE_READ(state, cgroup, kn, id) : 0;
}

/* Each hierarchy numbers its cgroups from 1. */
static __always_inline bool_t in_excluded(__u64 hierarchy, __u64 cgroup_id)
{
	__u64 key = hierarchy << EXCLUDED_HIERARCHY_SHIFT | cgroup_id;

	return bpf_map_lookup_elem(&excluded, &key) != NULL;
}

/* Out of line: few hosts exclude anybody. */
static __noinline int current_excluded(void)
{
	struct css_set *set = current_task()->cgroups;
	__u64 v1_id = v1_cgroup_id(set);

	return in_excluded(0, set->dfl_cgrp->kn->id) || (v1_id && in_excluded(v1_hierarchy, v1_id));
}

static __always_inline bool_t tenant_excluded(void)
{
	struct control *now = control();

	return now && now->excludes && current_excluded();
}

/* The total of this key, made on first use; NULL when the maps are full. */
static __always_inline struct total *total_at(const struct total_key *key)
{
	struct total *value = bpf_map_lookup_elem(&totals, key);

	if (value)
		return value;
	/* On the stack this would not fit beside the rest. */
	static const struct total empty;

	bpf_map_update_elem(&totals, key, &empty, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&totals, key);
	if (value)
		return value;
	bpf_map_update_elem(&spare_totals, key, &empty, BPF_NOEXIST);
	value = bpf_map_lookup_elem(&spare_totals, key);
	if (!value)
		count(COUNTER_TOTALS_FULL);
	return value;
}

/* The total of this tenant and function. */
static __always_inline struct total *total_of(__u64 cgroup_id, __u64 v1_id, __u16 function)
{
	struct total_key key = {
		.cgroup_id = cgroup_id,
		.cgroup_v1_id = v1_id,
		.function = function,
	};

	return total_at(&key);
}

static __always_inline __u32 log2_of(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32) {
		value >>= 32;
		bits += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bits += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bits += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bits += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bits += 2;
	}
	return bits + (value >> 1);
}

/* The agent opens a new window each second, and then reads what was the longest of the last. */
static __always_inline void total_turn(struct total *total)
{
	struct control *now = control();
	__u64 window = total->window;

	if (!now || window == now->window ||
	    __sync_val_compare_and_swap(&total->window, window, now->window) != window)
		return;
	total->previous_ns = __sync_lock_test_and_set(&total->max_ns, 0);
	total->previous_window = window;
}

static __always_inline void total_max(struct total *total, __u64 duration_ns)
{
	__u64 longest;

	total_turn(total);
	longest = total->max_ns;
	for (int i = 0; i < 4 && duration_ns > longest; i++) {
		__u64 seen = __sync_val_compare_and_swap(&total->max_ns, longest, duration_ns);

		if (seen == longest)
			return;
		longest = seen;
	}
}

static __always_inline void total_add(struct total *total, __u64 duration_ns, __u64 bytes)
{
	__u32 bucket = log2_of(duration_ns);

	if (bucket >= TOTAL_BUCKETS)
		bucket = TOTAL_BUCKETS - 1;
	__sync_fetch_and_add(&total->count, 1);
	__sync_fetch_and_add(&total->sum_ns, duration_ns);
	__sync_fetch_and_add(&total->histogram[bucket], 1);
	if (bytes)
		__sync_fetch_and_add(&total->bytes, bytes);
	total_max(total, duration_ns);
}

#endif /* COTENANT_PROBE_BPF_H */
