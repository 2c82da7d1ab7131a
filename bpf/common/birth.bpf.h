/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Cgroups that a tenant makes within its own: the first ones go by their own id, and their birth
 * and end are facts. The rest go by the tenant's outermost cgroup, and nobody is told of them.
 */
#ifndef COTENANT_BIRTH_BPF_H
#define COTENANT_BIRTH_BPF_H

#include "common/quota.bpf.h"

/* A tenant that had its quota of cgroups gets it again within an hour. */
#define CGROUP_EVERY_NS (3600ULL * 1000000000 / TENANT_CGROUPS)
#define CGROUP_RENAMES (TENANT_CGROUPS / 4)

/* A cgroup as a number, not as a pointer: the verifier wants it so. */
static __always_inline __u64 cgroup_address(struct cgroup *cgroup)
{
	return (__u64)BPF_CORE_READ(cgroup, self.cgroup);
}

/*
 * Somebody other than root made a cgroup: it lies in one that was given to them, and all below
 * that is theirs. Of a unit, all is the unit's.
 */
static __always_inline __u64 tenant_of_delegation(__u64 address, __u64 hierarchy, __u64 above)
{
	int level = BPF_CORE_READ((struct cgroup *)address, level);
	struct tenant *known = bpf_map_lookup_elem(&tenants, &above);
	struct tenant closed = { .flags = TENANT_CLOSED };
	struct control *now = control();
	__u64 key;

	if (level < 2)
		return above;
	key = cgroup_key(hierarchy, ancestor_id(address, level - 1));
	if (known && (above == key || known->flags & TENANT_PLACE)) {
		known->flags |= TENANT_CLOSED;
		key = above;
	} else if (bpf_map_update_elem(&tenants, &key, &closed, BPF_NOEXIST)) {
		return above;
	}
	if (now)
		__sync_fetch_and_add(&now->delegations, 1);
	return key;
}

/* Whether a tenant may have one more cgroup that goes by its own id. */
static __always_inline bool_t cgroup_allowed(__u64 tenant)
{
	struct usage *mine = usage_of(tenant);

	if (!mine)
		return 0;
	if (mine->used[QUOTA_cgroups] >= TENANT_CGROUPS ||
	    !in_pace(&mine->cgroups_until_ns, TENANT_CGROUPS, CGROUP_EVERY_NS)) {
		__sync_fetch_and_add(&mine->refused[QUOTA_cgroups], 1);
		return 0;
	}
	__sync_fetch_and_add(&mine->used[QUOTA_cgroups], 1);
	return 1;
}

/* The tenant within whose quota a cgroup is told, or 0: the host may make as many as it likes. */
static __always_inline __u64 closed_above(struct cgroup *cgroup, __u64 key)
{
	__u64 address = cgroup_address(cgroup), hierarchy = key >> TENANT_HIERARCHY_SHIFT;
	__u64 tenant = tenant_above(address, hierarchy);

	if (!(flags_of(tenant) & TENANT_CLOSED) && (__u32)bpf_get_current_uid_gid())
		tenant = tenant_of_delegation(address, hierarchy, tenant);
	return flags_of(tenant) & TENANT_CLOSED ? tenant : 0;
}

/* A new cgroup: whether it goes by its own id. The kernel makes and removes them one by one. */
static __always_inline bool_t cgroup_admitted(struct cgroup *cgroup, __u64 key)
{
	__u64 tenant = closed_above(cgroup, key);
	struct usage *mine;
	__u8 yes = 1;

	if (!tenant)
		return 1;
	if (!cgroup_allowed(tenant))
		return 0;
	if (!bpf_map_update_elem(&told, &key, &yes, BPF_ANY))
		return 1;
	mine = bpf_map_lookup_elem(&usage, &tenant);
	if (mine) {
		__sync_fetch_and_add(&mine->used[QUOTA_cgroups], -1);
		__sync_fetch_and_add(&mine->refused[QUOTA_cgroups], 1);
	}
	return 0;
}

/*
 * A cgroup has another path, and all below it: whether that is told. Of one that does not go by its
 * own id, nobody knows the old path. Whoever gives its own new paths again and again spends what new
 * cgroups would, and keeps most of it for them.
 */
static __always_inline bool_t cgroup_renamed(struct cgroup *cgroup, __u64 key)
{
	__u64 tenant = closed_above(cgroup, key);
	struct usage *mine;

	if (!tenant)
		return 1;
	if (tenant != key && !bpf_map_lookup_elem(&told, &key))
		return 0;
	mine = usage_of(tenant);
	if (!mine)
		return 0;
	if (in_pace(&mine->cgroups_until_ns, CGROUP_RENAMES, CGROUP_EVERY_NS))
		return 1;
	__sync_fetch_and_add(&mine->refused[QUOTA_identities], 1);
	return 0;
}

/* A cgroup is gone: whether it went by its own id. */
static __always_inline bool_t cgroup_dismissed(struct cgroup *cgroup, __u64 key)
{
	__u64 tenant = tenant_above(cgroup_address(cgroup), key >> TENANT_HIERARCHY_SHIFT);
	struct usage *mine;

	if (tenant == key || !(flags_of(tenant) & TENANT_CLOSED))
		return 1;
	if (bpf_map_delete_elem(&told, &key))
		return 0;
	mine = bpf_map_lookup_elem(&usage, &tenant);
	if (mine)
		__sync_fetch_and_add(&mine->used[QUOTA_cgroups], -1);
	return 1;
}

#endif /* COTENANT_BIRTH_BPF_H */
