/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of a map a tenant may fill.
 *
 * As much as is still free: one that takes all it can gets half, two get a third each, and each
 * leaves as much as it has to those who come later. What a tenant is refused is counted for it.
 *
 *   usage   tenant  ->  entries that it has, what it was refused, its credit in the rings
 *   freed   tenant  ->  entries of its that the agent removed; of all tenants under 0
 *   rooms   map     ->  entries that it can have, and has
 */
#ifndef COTENANT_QUOTA_BPF_H
#define COTENANT_QUOTA_BPF_H

#include "common/tenant.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct usage);
} usage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct freed);
} freed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUOTA_END);
	__type(key, __u32);
	__type(value, struct room);
} rooms SEC(".maps");

static __always_inline struct usage *usage_of(__u64 tenant)
{
	struct usage *value = bpf_map_lookup_elem(&usage, &tenant);
	/* On the stack this would not fit beside the rest. */
	static const struct usage none;

	if (value)
		return value;
	bpf_map_update_elem(&usage, &tenant, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&usage, &tenant);
}

/* The place of a number in an array; masked where it is used, since verifiers forget bounds. */
static __always_inline __u64 in_array(__u64 number, __u64 size)
{
	barrier_var(number);
	return number & (size - 1);
}

static __always_inline void quota_refuse_all(__u64 tenant, __u32 quota, __u64 number)
{
	struct usage *mine = usage_of(tenant);

	if (mine)
		__sync_fetch_and_add(&mine->refused[in_array(quota, QUOTAS)], number);
}

static __always_inline void quota_refuse(__u64 tenant, __u32 quota)
{
	quota_refuse_all(tenant, quota, 1);
}

/* The same out of line, for what happens about never. */
__noinline int quota_refused(__u64 tenant, __u32 quota)
{
	quota_refuse(tenant, quota);
	return 0;
}

static __always_inline __s64 freed_of(__u64 tenant, __u32 quota)
{
	struct freed *value = bpf_map_lookup_elem(&freed, &tenant);

	return value ? value->entries[in_array(quota, QUOTAS)] : 0;
}

/*
 * Whether one more may come, of which there may be so many at once, and one more every so often.
 * Nothing is subtracted from a clock that begins at boot.
 */
static __always_inline bool_t in_pace(__u64 *until_ns, __u64 at_once, __u64 every_ns)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 until = (*until_ns > now ? *until_ns : now) + every_ns;

	if (until > now + at_once * every_ns)
		return 0;
	*until_ns = until;
	return 1;
}

/* Whether the tenant may have one entry more, and `spare` after it. */
__noinline int quota_take(__u64 tenant, __u32 quota, __u32 spare)
{
	struct room *room = bpf_map_lookup_elem(&rooms, &quota);
	struct usage *mine = usage_of(tenant);
	__s64 free;

	if (!mine || !room)
		return 0;
	free = room->most - room->used + freed_of(0, quota);
	if (mine->used[in_array(quota, QUOTAS)] - freed_of(tenant, quota) + (__s64)spare >= free) {
		__sync_fetch_and_add(&mine->refused[in_array(quota, QUOTAS)], 1);
		return 0;
	}
	__sync_fetch_and_add(&mine->used[in_array(quota, QUOTAS)], 1);
	__sync_fetch_and_add(&room->used, 1);
	return 1;
}

/* One entry is free again; of a tenant that is gone, nobody counts. */
__noinline int quota_give(__u64 tenant, __u32 quota)
{
	struct room *room = bpf_map_lookup_elem(&rooms, &quota);
	struct usage *mine = bpf_map_lookup_elem(&usage, &tenant);

	if (room)
		__sync_fetch_and_add(&room->used, -1);
	if (mine)
		__sync_fetch_and_add(&mine->used[in_array(quota, QUOTAS)], -1);
	return 0;
}

#endif /* COTENANT_QUOTA_BPF_H */
