/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What programs on kernel events cost each CPU, and which events may become rows for that.
 *
 *   time saved, at most SAVED_S seconds' worth:   0 -------- a quarter -------- all
 *   chance of an event to become a row:           0 - - - -> 1                  1
 *
 * One run in about fifty is timed, and stands for those since the last. The budget is a part of a
 * CPU's time. An eighth of it pays for rows of each kind, of all tenants: a storm of messages
 * leaves requests their rows. The other half is kept for tenants that come first: those that
 * use a GPU, and those that took a CPU, a disk or the network from them. Counting an event is never
 * left out; it takes up to three quarters of the budget from rows.
 */
#ifndef COTENANT_METER_BPF_H
#define COTENANT_METER_BPF_H

#include "common/sched.bpf.h"

#define SAVED_S 10
#define TIMED_EVERY 32	/* and up to as many more, by chance */
#define TIMED_MASK (TIMED_EVERY - 1)
#define RUN_MAX_NS 10000	/* what takes longer was interrupted */
#define SHARE_SHIFT 20
#define CHANCE_ONE 65536
#define METER_KINDS 8

_Static_assert((int)EVENT_KIND_END <= METER_KINDS, "a power of two more");

/* What the run that is timed came to. */
enum run_made {
	RUN_COUNTED = 0,
	RUN_ROW = 1,
	RUN_FIRST_ROW = 2,	/* paid for by what is kept for tenants that come first */
};

struct meter {
	__u64 timed_ns;		/* when a run was timed last */
	__u64 saved_first_ns;
	__u64 counting_ns;	/* of counting, not taken from the budget yet */
	__u32 left;		/* runs until the next that is timed */
	__u32 gap;
	__u32 made;
	/* What an event lacks of being sure to become a row. */
	__u32 lacks_first;
	__u32 dice;
	__u32 lacks[METER_KINDS];
	__u64 saved_ns[METER_KINDS];
	__u64 spent_ns[METER_KINDS];
	__u64 runs[METER_KINDS];
};

LAYOUT(meter);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meter);
} meters SEC(".maps");

/*
 * Tenants that come first, and for which kinds of event: all for those that use a GPU. Written by the
 * agent.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u8);
} first_tenants SEC(".maps");

static __always_inline struct meter *meter_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&meters, &zero);
}

/* Whether rows of a tenant are kept when the budget runs short. */
static __noinline int comes_first(__u64 tenant, __u64 cgroup_id, __u32 kind)
{
	__u64 key = has_outermost(tenant) ? tenant : cgroup_id;
	__u8 *kinds;

	/* That is known before the agent knows. */
	if (tenant_uses_gpu(cgroup_id))
		return 1;
	kinds = bpf_map_lookup_elem(&first_tenants, &key);
	return kinds && *kinds >> (kind & 7) & 1;
}

static __always_inline __u64 at_most(__u64 value, __u64 most)
{
	return value < most ? value : most;
}

static __always_inline __u64 less(__u64 value, __u64 by)
{
	return value > by ? value - by : 0;
}

/* Nothing while a quarter of what can be saved is there, then ever more. */
static __always_inline __u32 lack_of(__u64 saved, __u64 most)
{
	return saved * 4 >= most ? 0 : CHANCE_ONE - saved * 4 * CHANCE_ONE / most;
}

static __always_inline void meter_settle(struct meter *meter, __u32 kind, __u64 share,
					  __u64 now, __u64 cost)
{
	__u64 most = (1000000000ULL * share >> SHARE_SHIFT) * SAVED_S + 8, earned = most, counting;
	__u64 passed = now - meter->timed_ns;

	if (meter->timed_ns && passed < SAVED_S * 1000000000ULL)
		earned = passed * share >> SHARE_SHIFT;
	meter->timed_ns = now;
	if (meter->made == RUN_COUNTED) {
		meter->counting_ns = at_most(meter->counting_ns + cost, most);
		cost = 0;
	}
	counting = at_most(meter->counting_ns, earned * 3 / 4);
	meter->counting_ns -= counting;
	earned -= counting;
	for (__u32 i = EVENT_HOST; i <= EVENT_TCP; i++) {
		__u64 paid = i == kind && meter->made == RUN_ROW ? cost : 0;

		meter->saved_ns[i] = less(at_most(meter->saved_ns[i] + earned / 8, most / 8), paid);
		meter->lacks[i] = lack_of(meter->saved_ns[i], most / 8);
	}
	if (meter->made != RUN_FIRST_ROW)
		cost = 0;
	meter->saved_first_ns = less(at_most(meter->saved_first_ns + earned / 2, most / 2), cost);
	meter->lacks_first = lack_of(meter->saved_first_ns, most / 2);
}

/* The run that was timed is over. Global, so that it is verified once. */
__noinline int meter_ends(__u64 began, __u32 kind)
{
	struct meter *meter = meter_here();
	struct control *page = control();
	__u64 now = bpf_ktime_get_ns(), cost = now - began;

	if (!meter || !page)
		return 0;
	if (cost > RUN_MAX_NS)
		cost = RUN_MAX_NS;
	cost *= meter->gap;
	meter->spent_ns[in_array(kind, METER_KINDS)] += cost;
	meter->runs[in_array(kind, METER_KINDS)] += meter->gap;
	meter->gap = TIMED_EVERY + (now & TIMED_MASK);
	meter->left = meter->gap;
	if (page->kernel_budget)
		meter_settle(meter, kind, page->kernel_budget, now, cost);
	return 0;
}

/* When a run began, or 0 for most: those are not timed. */
static __always_inline __u64 meter_begins(void)
{
	struct meter *meter = meter_here();

	if (!meter)
		return 0;
	if (meter->left > 1) {
		meter->left--;
		return 0;
	}
	meter->made = RUN_COUNTED;
	return bpf_ktime_get_ns();
}

/* A program on a kernel event, with its cost. */
#define METERED(kind, work)                                                                        \
	({                                                                                         \
		__u64 metered = meter_begins();                                                    \
                                                                                                   \
		work;                                                                              \
		if (metered)                                                                       \
			meter_ends(metered, kind);                                                 \
		0;                                                                                 \
	})

/* 16 bits. Chance has to be fair and cheap here, and nobody's secret. */
static __always_inline __u32 throw_dice(struct meter *meter)
{
	meter->dice = meter->dice * 1664525 + 1013904223;
	return meter->dice >> 16;
}

/* Whether the budget has room for a row of this kind, or for one of a tenant that comes first. */
static __always_inline bool_t within_budget(struct meter *meter, __u32 kind, bool_t first)
{
	__u32 lacks = first ? meter->lacks_first : meter->lacks[in_array(kind, METER_KINDS)];

	if (lacks && throw_dice(meter) < lacks)
		return 0;
	meter->made = first ? RUN_FIRST_ROW : RUN_ROW;
	return 1;
}

static __always_inline bool_t runs_short(const struct meter *meter, __u32 kind)
{
	return meter->lacks[in_array(kind, METER_KINDS)] != 0;
}

/* The same; whether the tenant comes first is looked up only where the budget runs short. */
static __noinline int affordable(__u64 tenant, __u64 cgroup_id, __u32 kind)
{
	struct meter *meter = meter_here();

	if (!meter)
		return 1;
	return within_budget(meter, kind,
			     runs_short(meter, kind) && comes_first(tenant, cgroup_id, kind));
}

#endif /* COTENANT_METER_BPF_H */
