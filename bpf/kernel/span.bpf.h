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

static __always_inline void waited(struct sched_task *sched, __u64 duration_ns)
{
	sched->wait_buckets[sched->wait_times % SAY_TIMES] = bucket_of(duration_ns);
	sched->wait_times++;
	sched->wait_ns += duration_ns;
	if (duration_ns > sched->wait_max_ns)
		sched->wait_max_ns = duration_ns;
}

static __always_inline void say_waited(struct sched_task *sched)
{
	struct total *total = sched_total(sched, TOTAL(runqueue));
	__u32 bucket;

	if (total) {
		__sync_fetch_and_add(&total->count, sched->wait_times);
		__sync_fetch_and_add(&total->sum_ns, sched->wait_ns);
		for (__u32 i = 0; i < SAY_TIMES && i < sched->wait_times; i++) {
			bucket = sched->wait_buckets[i];
			if (bucket < TOTAL_BUCKETS)	/* for the verifier */
				__sync_fetch_and_add(&total->histogram[bucket], 1);
		}
		total_max(total, sched->wait_max_ns);
		if (sched->waits_withheld)
			withhold(total, sched->waits_withheld);
	} else {
		/* One is counted already. */
		quota_refuse_all(sched->whose.tenant, QUOTA_uncounted, sched->wait_times - 1);
	}
	sched->wait_times = 0;
	sched->wait_ns = 0;
	sched->wait_max_ns = 0;
	sched->waits_withheld = 0;
}

/* What the thread did goes into the totals. Global, so that it is verified once. */
__noinline int say(struct sched_task *sched)
{
	struct total *total;

	if (!sched)
		return 0;
	say_contention(sched);
	if (sched->wait_times)
		say_waited(sched);
	total = sched_total(sched, TOTAL(oncpu));
	/* Room for a new tenant may be long in coming: its time waits with the thread. */
	if (!total)
		return 0;
	__sync_fetch_and_add(&total->count, sched->on_times);
	__sync_fetch_and_add(&total->sum_ns, sched->on_ns);
	sched->on_times = 0;
	sched->on_ns = 0;
	total = sched_total(sched, TOTAL(switch));
	if (!total)
		return 0;
	__sync_fetch_and_add(&total->count, sched->off_times);
	__sync_fetch_and_add(&total->sum_ns, sched->off_ns);
	if (sched->offs_withheld)
		withhold(total, sched->offs_withheld);
	sched->off_times = 0;
	sched->off_ns = 0;
	sched->offs_withheld = 0;
	return 0;
}

/* What it did so far was done for the tenant that it leaves. */
static __noinline int refresh(struct sched_task *sched, const struct task_struct *task,
			      __u64 version)
{
	struct whose whose = {};

	if (sched->cgroups && (sched->on_times || sched->off_times || sched->wait_times ||
			       sched->nobody_ns || sched->had_ns))
		say(sched);
	whose_of(&whose, task);
	sched->whose = whose;
	sched->cgroups = (__u64)task->cgroups;
	sched->version = version;
	if (sched->gpu)
		gpu_tenant_mark(whose.cgroup_id);
	return 0;
}

/* With BPF_LOCAL_STORAGE_GET_F_CREATE, NULL is a loss; without, a thread not met yet. */
static __always_inline struct sched_task *sched_get(struct task_struct *task, __u64 flags)
{
	struct sched_task *sched = bpf_task_storage_get(&sched_tasks, task, 0, flags);
	__u64 *moved = migrations_of(task->tgid), version;

	if (!sched || !moved) {
		if (flags)
			count(COUNTER_NO_SCHED);
		return NULL;
	}
	/* Both only grow: so does their sum. */
	version = *moved + tenants_version();
	if (sched->cgroups != (__u64)task->cgroups || sched->version != version)
		refresh(sched, task, version);
	return sched;
}

static __always_inline struct sched_task *sched_of(struct task_struct *task)
{
	return sched_get(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
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

/* A wait for a CPU is news beside a GPU, or when it is long. */
static __always_inline bool_t wait_worth_a_row(const struct sched_task *sched, __u64 duration_ns)
{
	return host_all || sched->gpu || duration_ns >= host_threshold_ns;
}

static __always_inline void sched_owner(struct owner *owner, const struct sched_task *sched)
{
	owner->cgroup_id = sched->whose.cgroup_id;
	owner->cgroup_v1_id = sched->whose.v1_id;
	owner->tenant = sched->whose.tenant;
}

static __always_inline bool_t sched_excluded(const struct sched_task *sched)
{
	struct owner owner = {};

	sched_owner(&owner, sched);
	return owner_excluded(&owner);
}

/* What was asked for explicitly is outside of the budget. */
static __always_inline bool_t row_affordable(const struct sched_task *sched)
{
	return host_all || affordable(sched->whose.tenant, sched->whose.cgroup_id, EVENT_HOST);
}

/* Whether a span becomes a row. One that is withheld is counted with the thread. */
static __always_inline bool_t span_row_allowed(struct sched_task *sched, __u32 *withheld)
{
	if (sched_excluded(sched))
		return 0;
	if (row_affordable(sched))
		return 1;
	++*withheld;
	return 0;
}

/* The same for any other event, which has its total at hand. */
static __always_inline bool_t event_row_allowed(const struct sched_task *sched, struct total *total)
{
	struct owner owner = {};

	if (sched_excluded(sched))
		return 0;
	if (row_affordable(sched))
		return 1;
	sched_owner(&owner, sched);
	row_seen(total);
	row_withheld(total, &owner, 0);
	return 0;
}

/* A row that the budget allows. */
static __always_inline struct host_event *host_row(struct total *total,
						   const struct task_struct *task,
						   const struct sched_task *sched, __u16 op,
						   __u64 began_ns)
{
	struct owner owner = {};
	struct host_event *row;

	sched_owner(&owner, sched);
	row_seen(total);
	row = row_room(total, &owner, EVENT_HOST, sizeof(*row), 0);
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
