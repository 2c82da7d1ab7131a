/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who had the CPU that a thread waited for.
 *
 *   runs        |--- a ---|-- b --|  idle  |- a -|      the last ones of each CPU
 *   a wait           |----------------------|
 *   its shares       |-a--|-- b --|         |           the rest: nobody known
 *
 * A wait is shared among those who ran during it, by their time on that CPU. Of a tenant's waits
 * on one CPU the union counts: where two of its threads wait, the runner is charged once. So
 * nobody is charged with more than it ran.
 *
 * A CPU's runs change with its run queue locked: at a switch, and when a thread is moved away.
 */
#ifndef COTENANT_WAITS_BPF_H
#define COTENANT_WAITS_BPF_H

#include "common/sched.bpf.h"

#define RUNS 256	/* of each CPU that are remembered */
#define WAITERS 128	/* tenants whose waits are told apart, on each CPU */
#define WAYS 8		/* places that a tenant may have, of these */
#define SETS (WAITERS / WAYS)
#define SET_BITS 4
#define HAD_NS 1000000	/* of waits for one peer that are with the thread before they are added */

_Static_assert(SETS == 1 << SET_BITS, "the hash says which");

/* Who shares places with whom differs from recording to recording. */
const volatile __u64 waits_secret = 0;

struct run {
	__u64 start;
	__u64 end;
	__u64 cgroup_id;
	__u64 v1_id;
};

/*
 * Up to where a tenant's waits were counted: an interval, and a time before which nothing is. What
 * was counted before it got its place is not known: until `unknown` its waits are nobody's.
 */
struct counted {
	__u64 tenant;
	__u64 from;
	__u64 until;
	__u64 floor;
	__u64 unknown;
};

/* Both ids of the peer 0: nobody known. */
struct contention_key {
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u64 peer_cgroup_id;
	__u64 peer_v1_id;
};

struct contention {
	__u64 waited_ns;
	__u64 tenant;	/* that waited: its quota */
};

/*
 * The wait that is being shared out. It lies here and not on the stack, where the verifier would
 * follow every value through every turn of a loop.
 */
struct wait {
	__u64 began;
	__u64 ended;
	__u64 from;	/* began, or the floor of what is counted */
	__u64 known;	/* from then on it is somebody's */
	__u64 reach;	/* runs that ended by then are passed over */
	__u64 place;	/* of the tenant in counted */
	__u64 rest;	/* not counted yet, and nobody's so far */
	__u64 had_ns;	/* as in struct sched_task */
	__u64 had_cgroup_id;
	__u64 had_v1_id;
	/* Who had most of it, as far as that is seen in passing; never more than it had. */
	__u64 thief_cgroup_id;
	__u64 thief_v1_id;
	__u64 thief_ns;
	__u64 tenant;
	struct contention_key key;
};

struct cpu_runs {
	__u64 since;	/* when the thread that runs now began; 0 before the first switch */
	__u64 next;
	struct wait wait;
	struct run runs[RUNS];
	struct counted counted[WAITERS];
	__u64 evicted[SETS];	/* up to where waits were counted of those who lost their place */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);	/* as many as there are CPUs, once loaded */
	__type(key, __u32);
	__type(value, struct cpu_runs);
} cpu_runs SEC(".maps");

/* There already: no memory can be had with interrupts off. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct contention_key);
	__type(value, struct contention);
} contention SEC(".maps");

LAYOUT(contention_key);
LAYOUT(contention);

/*
 * Without a branch: the verifier would follow both ways of each, in every turn of a loop.
 */
static __always_inline __u64 positive(__s64 value)
{
	__s64 sign = value >> 63;

	barrier_var(sign);
	return value & ~sign;
}

static __always_inline __u64 later(__u64 a, __u64 b)
{
	return b + positive(a - b);
}

static __always_inline __u64 sooner(__u64 a, __u64 b)
{
	return a - positive(a - b);
}

static __always_inline __u64 overlap(__u64 a, __u64 a_end, __u64 b, __u64 b_end)
{
	return positive(sooner(a_end, b_end) - later(a, b));
}

static __always_inline bool_t contention_add(const struct contention_key *key, __u64 tenant,
					     __u64 ns)
{
	struct contention *value = bpf_map_lookup_elem(&contention, key);
	struct contention none = { .tenant = tenant };

	if (!value && quota_take(tenant, QUOTA_contention, 0)) {
		if (bpf_map_update_elem(&contention, key, &none, BPF_NOEXIST))
			quota_give(tenant, QUOTA_contention);
		value = bpf_map_lookup_elem(&contention, key);
		if (!value)
			quota_refused(tenant, QUOTA_contention);
	}
	if (value)
		__sync_fetch_and_add(&value->waited_ns, ns);
	else
		count(COUNTER_CONTENTION_FULL);
	return value != NULL;
}

/* What one peer had is nobody's where there is no room for the two. */
static __noinline int say_had(struct sched_task *sched)
{
	struct contention_key key = {
		.cgroup_id = sched->whose.cgroup_id,
		.cgroup_v1_id = sched->whose.v1_id,
		.peer_cgroup_id = sched->had_cgroup_id,
		.peer_v1_id = sched->had_v1_id,
	};

	if (!contention_add(&key, sched->whose.tenant, sched->had_ns))
		sched->nobody_ns += sched->had_ns;
	sched->had_ns = 0;
	return 0;
}

/* What is with the thread is added now and then, with its time on CPUs. */
static __always_inline void say_contention(struct sched_task *sched)
{
	struct contention_key key = {
		.cgroup_id = sched->whose.cgroup_id,
		.cgroup_v1_id = sched->whose.v1_id,
	};

	if (sched->had_ns)
		say_had(sched);
	if (sched->nobody_ns && contention_add(&key, sched->whose.tenant, sched->nobody_ns))
		sched->nobody_ns = 0;
}

static __always_inline struct cpu_runs *runs_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_runs, &cpu);
}

/* The thread that ran on this CPU leaves it; NULL for the idle one. */
static __always_inline void run_ends(struct cpu_runs *cpu, const struct sched_task *ran, __u64 now)
{
	struct run *last = &cpu->runs[(cpu->next - 1) % RUNS];
	__u64 since = cpu->since;
	struct run *run;

	cpu->since = now;
	if (!ran || !since)
		return;
	if (last->end == since && last->cgroup_id == ran->whose.cgroup_id && last->v1_id == ran->whose.v1_id) {
		last->end = now;
		return;
	}
	run = &cpu->runs[cpu->next % RUNS];
	cpu->next++;
	run->start = since;
	run->end = now;
	run->cgroup_id = ran->whose.cgroup_id;
	run->v1_id = ran->whose.v1_id;
}

/* As in native/table.h: tenants can choose their ids, by making cgroups until one suits them. */
static __always_inline __u64 set_of(__u64 tenant)
{
	__u64 mixed = (waits_secret ^ tenant) * 0xff51afd7ed558ccdULL;

	mixed = (mixed ^ mixed >> 32) * 0xc4ceb9fe1a85ec53ULL;
	return mixed >> (64 - SET_BITS);
}

/*
 * The place of a tenant, or the one of its set that was not used for longest. Global, so that it
 * is verified once.
 */
__noinline int counted_place(__u32 at, __u64 tenant)
{
	struct cpu_runs *cpu = runs_of(at);
	__u64 first = set_of(tenant) * WAYS, oldest = ~0ULL;
	int place = 0;

	if (!cpu)
		return 0;
	for (__u64 i = 0; i < WAYS; i++) {
		struct counted *counted = &cpu->counted[(first + i) % WAITERS];

		if (counted->tenant == tenant)
			return first + i;
		if (counted->until < oldest) {
			oldest = counted->until;
			place = first + i;
		}
	}
	return place;
}

/*
 * Who takes another's place knows nothing of what was counted for it, should it have lost one: no
 * more than has been counted of all who did.
 */
static __always_inline struct counted *counted_of(struct cpu_runs *cpu, __u32 at,
						  const struct sched_task *waiter)
{
	__u64 tenant = waiter->whose.tenant;
	struct counted *counted;
	__u64 *evicted;

	/* What nobody was told about is the host's, cgroup by cgroup. */
	if (!has_outermost(tenant))
		tenant = waiter->whose.cgroup_id + waiter->whose.v1_id;
	/* Most waits are of the tenant that waited last. */
	if (cpu->counted[cpu->wait.place % WAITERS].tenant != tenant)
		cpu->wait.place = counted_place(at, tenant);
	counted = &cpu->counted[cpu->wait.place % WAITERS];
	if (counted->tenant != tenant) {
		evicted = &cpu->evicted[cpu->wait.place / WAYS % SETS];
		counted->unknown = *evicted;
		*evicted = later(*evicted, counted->until);
		counted->tenant = tenant;
		counted->from = 0;
		counted->until = 0;
		counted->floor = 0;
	}
	return counted;
}

static __always_inline void counted_add(struct counted *counted, __u64 from, __u64 until)
{
	if (from > counted->until) {
		counted->floor = later(counted->floor, counted->until);
		counted->from = from;
	} else {
		counted->from = sooner(counted->from, from);
	}
	counted->until = until;
}

/*
 * One run's part of the wait; 0 if those before it ended before the wait. Global, so that it is
 * verified once.
 */
__noinline int share_run(__u32 at, __u64 number)
{
	struct cpu_runs *cpu = runs_of(at);
	struct counted *counted;
	__u64 had, uncounted;
	struct wait *wait;
	struct run *run;

	if (!cpu)
		return 0;
	run = &cpu->runs[number % RUNS];
	wait = &cpu->wait;
	if (run->end <= wait->reach)
		return 0;
	counted = &cpu->counted[wait->place % WAITERS];
	had = overlap(run->start, run->end, wait->began, wait->ended);
	uncounted = overlap(run->start, run->end, wait->known, wait->ended) -
		    overlap(run->start, run->end, later(counted->from, wait->known), counted->until);
	if (run->cgroup_id == wait->thief_cgroup_id && run->v1_id == wait->thief_v1_id) {
		wait->thief_ns += had;
	} else if (had > wait->thief_ns) {
		wait->thief_cgroup_id = run->cgroup_id;
		wait->thief_v1_id = run->v1_id;
		wait->thief_ns = had;
	}
	if (!uncounted || uncounted > wait->rest)
		return run->start > wait->reach;
	if (!wait->had_ns) {
		wait->had_cgroup_id = run->cgroup_id;
		wait->had_v1_id = run->v1_id;
	}
	if (run->cgroup_id == wait->had_cgroup_id && run->v1_id == wait->had_v1_id) {
		wait->had_ns += uncounted;
		wait->rest -= uncounted;
		return run->start > wait->reach;
	}
	wait->key.peer_cgroup_id = run->cgroup_id;
	wait->key.peer_v1_id = run->v1_id;
	if (contention_add(&wait->key, wait->tenant, uncounted))
		wait->rest -= uncounted;
	return run->start > wait->reach;
}

/*
 * Most waits need not be shared out: all of it that is not counted yet was the last run's, or
 * nobody's.
 */
static __always_inline bool_t wait_of_one(struct cpu_runs *cpu, struct counted *counted,
					  struct sched_task *waiter, __u64 began, __u64 now)
{
	const struct run *last = &cpu->runs[(cpu->next - 1) % RUNS];
	__u64 from = later(began, counted->floor), start = later(from, counted->until);

	if (began < counted->from || from < counted->unknown || start > now)
		return 0;
	if (last->end <= start) {
		waiter->nobody_ns += now - start;
	} else {
		if (last->start > start || last->end != now)
			return 0;
		if (!waiter->had_ns) {
			waiter->had_cgroup_id = last->cgroup_id;
			waiter->had_v1_id = last->v1_id;
		}
		if (waiter->had_cgroup_id != last->cgroup_id || waiter->had_v1_id != last->v1_id)
			return 0;
		waiter->had_ns += now - start;
	}
	counted_add(counted, from, now);
	return 1;
}

/*
 * Who had most of the wait is of interest to a row alone; else runs that were shared out for the
 * tenant already are passed over. Global, so that it is verified once.
 */
__noinline int wait_shared(__u32 at, struct sched_task *waiter, __u64 began, __u64 now, __u32 row)
{
	struct cpu_runs *cpu = runs_of(at);
	struct counted *counted;
	struct wait *wait;

	if (!cpu || !waiter)
		return 0;
	wait = &cpu->wait;
	counted = counted_of(cpu, at, waiter);
	wait->began = began;
	wait->ended = now;
	wait->from = later(began, counted->floor);
	wait->known = later(wait->from, counted->unknown);
	wait->rest = positive(now - wait->from) -
		     overlap(wait->from, now, counted->from, counted->until);
	wait->reach = !row && began >= counted->from ? later(began, counted->until) : began;
	wait->thief_cgroup_id = 0;
	wait->thief_v1_id = 0;
	wait->thief_ns = 0;
	wait->tenant = waiter->whose.tenant;
	wait->key.cgroup_id = waiter->whose.cgroup_id;
	wait->key.cgroup_v1_id = waiter->whose.v1_id;
	wait->had_ns = waiter->had_ns;
	wait->had_cgroup_id = waiter->had_cgroup_id;
	wait->had_v1_id = waiter->had_v1_id;
	for (__u64 i = 1; i <= RUNS; i++)
		if (!share_run(at, cpu->next - i))
			break;
	waiter->nobody_ns += wait->rest;
	waiter->had_ns = wait->had_ns;
	waiter->had_cgroup_id = wait->had_cgroup_id;
	waiter->had_v1_id = wait->had_v1_id;
	if (wait->known > wait->from &&
	    wait->known - wait->from >
	    overlap(wait->from, wait->known, counted->from, counted->until)) {
		quota_refused(wait->tenant, QUOTA_contention);
		count(COUNTER_CONTENTION_FULL);
	}
	counted_add(counted, wait->from, now);
	return 0;
}

/*
 * A wait on this CPU is over, or goes on elsewhere: the tenant is charged with what none of its
 * threads was charged with.
 */
static __always_inline void wait_ends(__u32 at, struct sched_task *waiter, __u64 began, __u64 now,
				      bool_t row)
{
	struct cpu_runs *cpu = runs_of(at);

	if (!cpu)
		return;
	if (row || !wait_of_one(cpu, counted_of(cpu, at, waiter), waiter, began, now))
		wait_shared(at, waiter, began, now, row);
	if (waiter->had_ns >= HAD_NS)
		say_had(waiter);
}

/* Since when the thread is ready to run, and does not; 0 where it is not known to be. */
static __always_inline __u64 waits_since(const struct sched_task *sched)
{
	if (sched->off_since && sched->state == HOST_STATE_R)
		return sched->off_since;
	/* The waker may have been faster than the switch. */
	return sched->runnable_since ? later(sched->runnable_since, sched->off_since) : 0;
}

#endif /* COTENANT_WAITS_BPF_H */
