/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the current task's cgroup sends and receives, counted on each CPU for those that ran there
 * last: an array costs a message a few nanoseconds, and the lookup of a total seventy.
 *
 *   callers   a place by the cgroup's id  ->  whose it is, and what is not in its totals yet
 *
 * What a place has counted goes into the totals when another cgroup takes it, and before a row is
 * written. The agent adds what is there to the totals; it reads those first, so that what is moved
 * meanwhile comes a second later, and never twice.
 */
#ifndef COTENANT_CALLER_BPF_H
#define COTENANT_CALLER_BPF_H

#include "kernel/owner.bpf.h"

#define CALLERS 128	/* a power of two */
#define MESSAGE_OPS 2	/* send and recv */
#define KERNEL_THREADS ((__u64)-1)	/* in the root cgroup, which others are in, too */

struct caller {
	__u64 cgroup;		/* of version 2, and next of the version 1 hierarchy that was chosen */
	__u64 v1;
	__u64 version;
	__u64 first;
	__u64 cgroup_id;	/* that it goes by; as in struct whose */
	__u64 cgroup_v1_id;
	__u64 tenant;
	__u64 hierarchy;
	/* Of each operation: messages, their bytes, and how many were to become rows and did not. */
	__u64 count[MESSAGE_OPS];
	__u64 bytes[MESSAGE_OPS];
	__u64 withheld[MESSAGE_OPS];
	__u64 withheld_bytes[MESSAGE_OPS];
};

LAYOUT(caller);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CALLERS);
	__type(key, __u32);
	__type(value, struct caller);
} callers SEC(".maps");

static __always_inline void caller_owner(struct owner *owner, const struct caller *caller)
{
	owner->cgroup_id = caller->cgroup_id;
	owner->cgroup_v1_id = caller->cgroup_v1_id;
	owner->tenant = caller->tenant;
	owner->hierarchy = caller->hierarchy;
}

/* What was counted of an operation goes into its total, if there is one; the place is free then. */
static __always_inline void messages_tell(struct caller *caller, __u32 op, struct total *total)
{
	__u64 count = caller->count[op];

	if (total) {
		__sync_fetch_and_add(&total->count, count);
		__sync_fetch_and_add(&total->bytes, caller->bytes[op]);
		__sync_fetch_and_add(&total->histogram[0], count);
		__sync_fetch_and_add(&total->shed_bytes, caller->withheld_bytes[op]);
		withhold(total, caller->withheld[op]);
	}
	caller->count[op] = 0;
	caller->bytes[op] = 0;
	caller->withheld[op] = 0;
	caller->withheld_bytes[op] = 0;
}

static __always_inline __u16 message_function(__u32 index)
{
	return KERNEL_FUNCTION(EVENT_NET, NET_OP_send + index);
}

static __noinline int caller_tell(struct caller *caller)
{
	struct owner owner = {};
	struct total *total;

	if (!caller)
		return 0;
	caller_owner(&owner, caller);
	for (__u32 i = 0; i < MESSAGE_OPS; i++) {
		if (!caller->count[i])
			continue;
		total = owner_total_made(&owner, message_function(i));
		if (!total)
			quota_refuse_all(owner.tenant, QUOTA_uncounted, caller->count[i]);
		messages_tell(caller, i, total);
	}
	return 0;
}

/* As v1_cgroup() with loads instead of calls, which a program on a tracepoint may do. */
#define STATE_OF(set, controller)                                                                  \
	(*(struct cgroup_subsys_state **)((void *)(set) +                                          \
					  bpf_core_field_offset(struct css_set, subsys) +          \
					  8 * bpf_core_enum_value(enum cgroup_subsys_id,           \
								  controller##_cgrp_id)))

static __always_inline __u64 v1_id_of(const struct task_struct *task)
{
	struct css_set *set = task->cgroups;
	struct cgroup_subsys_state *state;

	switch (v1_controller) {
	case V1_CONTROLLER_memory:
		state = STATE_OF(set, memory);
		break;
	case V1_CONTROLLER_pids:
		state = STATE_OF(set, pids);
		break;
	case V1_CONTROLLER_cpu:
		state = STATE_OF(set, cpu);
		break;
	case V1_CONTROLLER_freezer:
		state = STATE_OF(set, freezer);
		break;
	case V1_CONTROLLER_devices:
		state = STATE_OF(set, devices);
		break;
	default:
		return 0;
	}
	return state->cgroup->kn->id;
}

/*
 * Another cgroup takes the place, or there is news of tenants. Its totals are made at once: if
 * there is no room for them, it goes by its tenant's outermost cgroup.
 */
static __noinline int caller_learn(struct caller *caller, __u64 cgroup, __u64 v1, __u64 version)
{
	struct owner owner = {};

	if (!caller)
		return 0;
	caller_tell(caller);
	owner_ids(&owner, bpf_get_current_task_btf());
	for (__u32 i = 0; i < MESSAGE_OPS; i++)
		owner_total_made(&owner, message_function(i));
	caller->cgroup_id = owner.cgroup_id;
	caller->cgroup_v1_id = owner.cgroup_v1_id;
	caller->tenant = owner.tenant;
	caller->hierarchy = owner.hierarchy;
	caller->first = comes_first(owner.tenant, owner.cgroup_id, EVENT_NET);
	caller->v1 = v1;
	caller->version = version;
	caller->cgroup = cgroup;
	return 0;
}

/* NULL about never. */
static __always_inline struct caller *caller_here(const struct task_struct *task)
{
	__u64 cgroup = v2_cgroup_id(task), v1 = v1_id_of(task), version;
	__u32 place = (cgroup ^ cgroup >> 7 ^ v1) & (CALLERS - 1);
	struct caller *caller = bpf_map_lookup_elem(&callers, &place);
	struct control *now = control();

	if (!caller || !now)
		return NULL;
	version = now->tenants + now->delegations + now->first_tenants;
	if (cgroup == ROOT_CGROUP && is_kthread(task))
		cgroup = KERNEL_THREADS;
	if (caller->cgroup != cgroup || caller->v1 != v1 || caller->version != version)
		caller_learn(caller, cgroup, v1, version);
	return caller;
}

#endif /* COTENANT_CALLER_BPF_H */
