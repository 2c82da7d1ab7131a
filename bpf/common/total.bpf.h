/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Exact totals beside the rows, by cgroup and function.
 *
 * A tenant has room for its quota of them. Beyond that, what its cgroups do is counted under its
 * outermost one, for which a part of the quota is kept.
 */
#ifndef COTENANT_TOTAL_BPF_H
#define COTENANT_TOTAL_BPF_H

#include "common/quota.bpf.h"

#define EEXIST 17
#define TOTALS_OUTERMOST 1024	/* kept for the outermost cgroup */

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

static const struct total no_total;

/* Whose a cgroup is may be known only later; a total is given back to whom it was taken from. */
static __always_inline void total_paid(struct total *made, __u64 tenant)
{
	if (made)
		made->payer = tenant;
}

/* One more total of a tenant; whether there is one now. */
__noinline int total_make(const struct total_key *wanted, __u64 tenant)
{
	struct total_key key;
	__u32 spare = TOTALS_OUTERMOST;
	long error;

	if (!wanted)
		return 0;
	/* Before v6.5 a map takes no key through a global function's pointer. */
	key = *wanted;
	if (id_of_key(tenant) == key.cgroup_id || id_of_key(tenant) == key.cgroup_v1_id)
		spare = 0;
	if (!quota_take(tenant, QUOTA_totals, spare))
		return 0;
	error = bpf_map_update_elem(&totals, &key, &no_total, BPF_NOEXIST);
	if (!error) {
		total_paid(bpf_map_lookup_elem(&totals, &key), tenant);
		return 1;
	}
	quota_give(tenant, QUOTA_totals);
	if (error == -EEXIST)
		return 1;
	if (!quota_take(tenant, QUOTA_spare_totals, spare / 8))
		return 0;
	error = bpf_map_update_elem(&spare_totals, &key, &no_total, BPF_NOEXIST);
	if (!error)
		total_paid(bpf_map_lookup_elem(&spare_totals, &key), tenant);
	else
		quota_give(tenant, QUOTA_spare_totals);
	return !error || error == -EEXIST;
}

/* The total of this key; NULL where there is none yet. */
static __always_inline struct total *total_found(const struct total_key *key, __u64 tenant)
{
	struct total *value = bpf_map_lookup_elem(&totals, key);

	if (!value)
		value = bpf_map_lookup_elem(&spare_totals, key);
	if (value)
		value->tenant = tenant;
	return value;
}

/*
 * There is no total for these cgroups and a function yet. If there is no room for it, they go by
 * their tenant's outermost cgroup from now on.
 */
__noinline int total_missing(struct whose *whose, __u32 function)
{
	struct total_key key = { .function = function };

	if (!whose)
		return 0;
	key.cgroup_id = whose->cgroup_id;
	key.cgroup_v1_id = whose->v1_id;
	if (total_make(&key, whose->tenant) || !has_outermost(whose->tenant))
		return 0;
	whose_outermost(whose);
	key.cgroup_id = whose->cgroup_id;
	key.cgroup_v1_id = whose->v1_id;
	if (!total_found(&key, whose->tenant))
		total_make(&key, whose->tenant);
	return 0;
}

static __always_inline struct total *total_of(struct whose *whose, __u16 function)
{
	struct total_key key = {
		.cgroup_id = whose->cgroup_id,
		.cgroup_v1_id = whose->v1_id,
		.function = function,
	};
	struct total *total = total_found(&key, whose->tenant);

	if (total)
		return total;
	total_missing(whose, function);
	key.cgroup_id = whose->cgroup_id;
	key.cgroup_v1_id = whose->v1_id;
	total = total_found(&key, whose->tenant);
	if (!total) {
		count(COUNTER_TOTALS_FULL);
		quota_refused(whose->tenant, QUOTA_uncounted);
	}
	return total;
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

static __always_inline __u32 bucket_of(__u64 duration_ns)
{
	__u32 bucket = log2_of(duration_ns);

	return bucket < TOTAL_BUCKETS ? bucket : TOTAL_BUCKETS - 1;
}

static __always_inline void total_add(struct total *total, __u64 duration_ns, __u64 bytes)
{
	__u32 bucket = bucket_of(duration_ns);

	__sync_fetch_and_add(&total->count, 1);
	__sync_fetch_and_add(&total->sum_ns, duration_ns);
	__sync_fetch_and_add(&total->histogram[bucket], 1);
	if (bytes)
		__sync_fetch_and_add(&total->bytes, bytes);
	total_max(total, duration_ns);
}

#endif /* COTENANT_TOTAL_BPF_H */
