/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events that the kernel raises: whose they are, and how they reach the ring.
 *
 * Most are raised in an interrupt or by somebody else, so the owner is read from the thing that
 * the event is about, and never from whoever happens to run.
 */
#ifndef COTENANT_OWNER_BPF_H
#define COTENANT_OWNER_BPF_H

#include "common/share.bpf.h"
#include "kernel/meter.bpf.h"

#define PF_KTHREAD 0x00200000
#define ROOT_CGROUP 1

VALUES(attribution);
NUMBERS(owner_number);

struct owner {
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u64 tenant;
	__u64 process_start_ns;
	__u32 pid;
	__u32 tid;
	char comm[16];
	__u16 hierarchy;
	__u16 attribution;
	__u32 bytes;
};

/* Whether the tenant asked to be left alone. */
static __always_inline bool_t owner_excluded(const struct owner *owner)
{
	struct control *now = control();

	if (!now || !now->excludes)
		return 0;
	return in_excluded(owner->hierarchy, owner->cgroup_id) || outermost_excluded(owner->tenant) ||
	       (owner->cgroup_v1_id && in_excluded(v1_hierarchy, owner->cgroup_v1_id));
}

static __always_inline bool_t is_kthread(const struct task_struct *task)
{
	return (task->flags & PF_KTHREAD) != 0;
}

static __always_inline __u64 v2_cgroup_id(const struct task_struct *task)
{
	return task->cgroups->dfl_cgrp->kn->id;
}

/* Kernel threads live in the root cgroup, and their work is nobody's. */
static __always_inline void whose_of(struct whose *whose, const struct task_struct *task)
{
	if (is_kthread(task) && v2_cgroup_id(task) == ROOT_CGROUP) {
		whose->cgroup_id = NOBODY;
		whose->v1_id = 0;
		whose->tenant = NOBODY;
		return;
	}
	whose_task(whose, task);
}

static __always_inline void owner_ids(struct owner *owner, const struct task_struct *task)
{
	struct whose whose = {};

	whose_of(&whose, task);
	owner->cgroup_id = whose.cgroup_id;
	owner->cgroup_v1_id = whose.v1_id;
	owner->tenant = whose.tenant;
	owner->hierarchy = 0;
	owner->attribution = whose.tenant == NOBODY ? ATTRIBUTION_kernel : ATTRIBUTION_task;
}

static __always_inline void owner_task(struct owner *owner, const struct task_struct *task)
{
	owner->process_start_ns = task->group_leader->start_boottime;
	owner->pid = task->tgid;
	owner->tid = task->pid;
	bpf_probe_read_kernel(owner->comm, sizeof(owner->comm), task->comm);
}

static __always_inline void owner_of_task(struct owner *owner, const struct task_struct *task)
{
	owner_ids(owner, task);
	owner_task(owner, task);
	owner->bytes = 0;
}

/* Beyond its tenant's quota of totals, the owner is the tenant's outermost cgroup. */
__noinline int owner_total_missing(struct owner *owner, __u32 function)
{
	struct total_key key = { .function = function };

	if (!owner)
		return 0;
	key.cgroup_id = owner->cgroup_id;
	key.cgroup_v1_id = owner->cgroup_v1_id;
	key.hierarchy = owner->hierarchy;
	if (total_make(&key, owner->tenant) || !has_outermost(owner->tenant))
		return 0;
	owner->cgroup_id = id_of_key(owner->tenant);
	owner->cgroup_v1_id = 0;
	owner->hierarchy = owner->tenant >> TENANT_HIERARCHY_SHIFT;
	key.cgroup_id = owner->cgroup_id;
	key.cgroup_v1_id = 0;
	key.hierarchy = owner->hierarchy;
	if (!total_found(&key, owner->tenant))
		total_make(&key, owner->tenant);
	return 0;
}

static __always_inline struct total_key owner_key(const struct owner *owner, __u16 function)
{
	return (struct total_key){
		.cgroup_id = owner->cgroup_id,
		.cgroup_v1_id = owner->cgroup_v1_id,
		.function = function,
		.hierarchy = owner->hierarchy,
	};
}

/* NULL if there is no room for it. */
static __always_inline struct total *owner_total_made(struct owner *owner, __u16 function)
{
	struct total_key key = owner_key(owner, function);
	struct total *total = total_found(&key, owner->tenant);

	if (total)
		return total;
	owner_total_missing(owner, function);
	key = owner_key(owner, function);
	return total_found(&key, owner->tenant);
}

/* The same for an event, which has no total then. */
static __always_inline struct total *owner_total(struct owner *owner, __u16 function)
{
	struct total *total = owner_total_made(owner, function);

	if (!total) {
		count(COUNTER_TOTALS_FULL);
		quota_refused(owner->tenant, QUOTA_uncounted);
	}
	return total;
}

/* The budget has no room for this row. */
static __always_inline void *row_withheld(struct total *total, const struct owner *owner,
					  __u64 bytes)
{
	shed(total, owner->tenant, bytes);
	if (total)
		__sync_fetch_and_add(&total->withheld, 1);
	return NULL;
}

/* Room for a row that the budget allows, or NULL: then it was shed or lost, and is counted. */
static __always_inline void *row_room(struct total *total, const struct owner *owner,
				      enum event_kind kind, __u32 size, __u64 bytes)
{
	struct control *now = control();
	void *row;

	if (now && now->kernel_above &&
	    bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > now->kernel_above &&
	    !has_credit(owner->tenant, kind, size + 8)) {
		shed(total, owner->tenant, bytes);
		return NULL;
	}
	row = bpf_ringbuf_reserve(&events, size, 0);
	if (!row)
		row_lost(total, owner->tenant);
	return row;
}

/* Room for a row of this owner, or NULL: then it was shed or lost, and is counted. */
static __always_inline void *row_reserve(struct total *total, const struct owner *owner,
					 enum event_kind kind, __u32 size, __u64 bytes)
{
	row_seen(total);
	if (affordable(owner->tenant, owner->cgroup_id, kind))
		return row_room(total, owner, kind, size, bytes);
	return row_withheld(total, owner, bytes);
}

static __always_inline void head_of(struct event_head *head, const struct owner *owner,
				    enum event_kind kind, __u32 size, __u64 began_ns)
{
	head->timestamp_ns = began_ns;
	head->pid = owner->pid;
	head->tid = owner->tid;
	head->cgroup_id = owner->cgroup_id;
	__builtin_memcpy(head->comm, owner->comm, sizeof(head->comm));
	head->cgroup_v1_id = owner->cgroup_v1_id;
	head->process_start_ns = owner->process_start_ns;
	head->kind = kind;
	head->cpu = bpf_get_smp_processor_id();
	head->size = size;
	head->hierarchy = owner->hierarchy;
}

#endif /* COTENANT_OWNER_BPF_H */
