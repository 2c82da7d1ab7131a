/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread did on and off its CPU, on its way into totals and rows.
 */
#ifndef COTENANT_SPAN_BPF_H
#define COTENANT_SPAN_BPF_H

#include "kernel/owner.bpf.h"
#include "kernel/waits.bpf.h"

#define TOTAL(op) KERNEL_FUNCTION(EVENT_HOST, HOST_OP_##op)
#define TASK_NOLOAD 0x400
#define TASK_UNINTERRUPTIBLE 0x2

/* Spans of threads that use no GPU library become rows from here on. */
const volatile __u64 host_threshold_ns = 10000000;
/* Rows for every thread, however short. */
const volatile __u8 host_all = 0;

static __always_inline struct total *sched_total(struct sched_task *sched, __u16 function)
{
	return total_of(&sched->whose, function);
}

static __always_inline void say(struct sched_task *sched)
{
	struct total *total = sched_total(sched, TOTAL(oncpu));

	say_waits(sched);
	/* Room for a new tenant may be long in coming: its time waits with the thread. */
	if (!total)
		return;
	__sync_fetch_and_add(&total->count, sched->on_times);
	__sync_fetch_and_add(&total->sum_ns, sched->on_ns);
	sched->on_times = 0;
	sched->on_ns = 0;
	total = sched_total(sched, TOTAL(switch));
	if (!total)
		return;
	__sync_fetch_and_add(&total->count, sched->off_times);
	__sync_fetch_and_add(&total->sum_ns, sched->off_ns);
	sched->off_times = 0;
	sched->off_ns = 0;
}

/* What it did so far was done for the tenant that it leaves. */
static __always_inline void refresh(struct sched_task *sched, const struct task_struct *task,
				    __u64 migrations, __u64 version)
{
	struct whose whose = {};

	if (sched->cgroups && (sched->on_times || sched->off_times || sched->nobody_ns || sched->had_ns))
		say(sched);
	whose_of(&whose, task);
	sched->whose = whose;
	sched->cgroups = (__u64)task->cgroups;
	sched->migrations = migrations;
	sched->version = version;
	if (sched->gpu)
		gpu_tenant_mark(whose.cgroup_id);
}

static __always_inline struct sched_task *sched_of(struct task_struct *task)
{
	struct sched_task *sched = bpf_task_storage_get(&sched_tasks, task, 0,
							BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 *moved = migrations_of(task->tgid), version = tenants_version();

	if (!sched || !moved) {
		count(COUNTER_NO_THREAD);
		return NULL;
	}
	if (sched->cgroups != (__u64)task->cgroups || sched->migrations != *moved ||
	    sched->version != version)
		refresh(sched, task, *moved, version);
	return sched;
}

/*
 * Only a switch changes these totals, with interrupts off, on its own CPU: nothing comes between
 * the reading and the writing, and a plain addition is exact.
 */
static __always_inline void total_add_alone(struct total *total, __u64 duration_ns)
{
	__u32 bucket = log2_of(duration_ns);

	if (bucket >= TOTAL_BUCKETS)
		bucket = TOTAL_BUCKETS - 1;
	total->count++;
	total->sum_ns += duration_ns;
	total->histogram[bucket]++;
	total_turn(total);
	if (duration_ns > total->max_ns)
		total->max_ns = duration_ns;
}

/* Adds a span to a total that this CPU has for itself, or to a spare one, which is everybody's. */
static __always_inline struct total *span_add(struct sched_task *sched, __u16 function,
					      __u64 duration_ns)
{
	struct total_key key = {
		.cgroup_id = sched->whose.cgroup_id,
		.cgroup_v1_id = sched->whose.v1_id,
		.function = function,
	};
	struct total *total = bpf_map_lookup_elem(&totals, &key);

	if (total) {
		total->tenant = sched->whose.tenant;
		total_add_alone(total, duration_ns);
		return total;
	}
	total = sched_total(sched, function);
	if (total)
		total_add(total, duration_ns, 0);
	return total;
}

/* Events of a thread's life are rows for those who use a GPU, and for their tenants. */
static __always_inline bool_t worth_a_row(const struct sched_task *sched)
{
	return host_all || sched->gpu || tenant_uses_gpu(sched->whose.cgroup_id);
}

/* A thread that sleeps of its own will is news only beside a GPU. */
static __always_inline bool_t span_worth_a_row(const struct sched_task *sched, __u64 duration_ns)
{
	if (host_all || sched->gpu)
		return 1;
	if (duration_ns < host_threshold_ns)
		return 0;
	if (sched->state == HOST_STATE_S || sched->state == HOST_STATE_I)
		return tenant_uses_gpu(sched->whose.cgroup_id);
	return 1;
}

static __always_inline struct host_event *host_row(struct total *total,
						   const struct task_struct *task,
						   const struct sched_task *sched, __u16 op,
						   __u64 began_ns)
{
	struct owner owner = {};
	struct host_event *row;

	owner.cgroup_id = sched->whose.cgroup_id;
	owner.cgroup_v1_id = sched->whose.v1_id;
	owner.tenant = sched->whose.tenant;
	if (owner_excluded(&owner))
		return NULL;
	row_seen(total);
	/* What was asked for explicitly is outside of the budget. */
	if (host_all || affordable(owner.tenant, owner.cgroup_id, EVENT_HOST))
		row = row_room(total, &owner, EVENT_HOST, sizeof(*row), 0);
	else
		row = row_withheld(total, &owner, 0);
	if (!row)
		return NULL;
	owner_task(&owner, task);
	head_of(&row->head, &owner, EVENT_HOST, sizeof(*row), began_ns);
	row->op = op;
	row->known = 0;
	row->reserved = 0;
	row->duration_ns = 0;
	row->on_cpu = bpf_get_smp_processor_id();
	row->peer_pid = 0;
	row->peer_cgroup_id = 0;
	row->peer_v1_id = 0;
	row->thief_cgroup_id = 0;
	row->thief_v1_id = 0;
	row->thief_ns = 0;
	row->state = 0;
	row->attribution = sched->whose.cgroup_id == NOBODY ? ATTRIBUTION_kernel : ATTRIBUTION_task;
	row->weight = row_weight(total, began_ns, 0);
	return row;
}

static __always_inline void row_peer(struct host_event *row, __u32 pid, __u64 cgroup_id,
				     __u64 v1_id)
{
	/* The idle task is nobody. */
	if (!pid)
		return;
	row->peer_pid = pid;
	row->peer_cgroup_id = cgroup_id;
	row->peer_v1_id = v1_id;
	row->known |= 1 << HOST_KNOWN_PEER | 1 << HOST_KNOWN_PEER_TENANT;
}

/* Of the wait that just ended on this CPU. */
static __always_inline void row_thief(struct host_event *row, const struct cpu_runs *cpu)
{
	if (!cpu || !cpu->wait.thief_ns)
		return;
	row->thief_cgroup_id = cpu->wait.thief_cgroup_id;
	row->thief_v1_id = cpu->wait.thief_v1_id;
	row->thief_ns = cpu->wait.thief_ns;
	row->known |= 1 << HOST_KNOWN_THIEF;
}

static __always_inline __u16 state_of(bool_t preempt, unsigned int state)
{
	if (preempt || !state)
		return HOST_STATE_R;
	if ((state & (TASK_NOLOAD | TASK_UNINTERRUPTIBLE)) == (TASK_NOLOAD | TASK_UNINTERRUPTIBLE))
		return HOST_STATE_I;
	if (state & 0x01)
		return HOST_STATE_S;
	if (state & 0x02)
		return HOST_STATE_D;
	if (state & 0x04)
		return HOST_STATE_T;
	if (state & 0x08)
		return HOST_STATE_t;
	if (state & 0x10)
		return HOST_STATE_X;
	if (state & 0x20)
		return HOST_STATE_Z;
	if (state & 0x40)
		return HOST_STATE_P;
	return HOST_STATE_X;
}

#endif /* COTENANT_SPAN_BPF_H */
