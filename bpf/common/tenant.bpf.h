/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose a cgroup is.
 *
 *   tenants   outermost cgroup  ->  what the agent says of it
 *   told      cgroups within a tenant that go by their own id: at most TENANT_CGROUPS of each
 *   places    a cgroup's tenant and the id that it goes by, as looked up last
 *
 * The tenant of a cgroup is the nearest one above it, but nobody's below one that is closed: what
 * a tenant makes within its own cgroup stays its own. Looking up starts at the root, so that it
 * costs the same however deep a tenant nests its cgroups.
 */
#ifndef COTENANT_TENANT_BPF_H
#define COTENANT_TENANT_BPF_H

#include "common/probe.bpf.h"
#include "common/tenant.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct tenant);
} tenants SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} told SEC(".maps");

struct place {
	__u64 tenant;
	__u64 cgroup_id;	/* that it goes by */
	__u64 version;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct place);
} places SEC(".maps");

/* Before Linux commit 7f203bc89eb6 ("cgroup: Replace cgroup->ancestor_ids[] with ->ancestors[]") (v6.1). */
struct cgroup___ids {
	__u64 ancestor_ids[1];
} BTF;

struct cgroup___ancestors {
	struct cgroup *ancestors[1];
} BTF;

static __always_inline __u64 cgroup_key(__u64 hierarchy, __u64 id)
{
	return hierarchy << TENANT_HIERARCHY_SHIFT | id;
}

static __always_inline __u64 id_of_key(__u64 key)
{
	return key & ((1ULL << TENANT_HIERARCHY_SHIFT) - 1);
}

/* The id of the cgroup at this level above a cgroup, or of itself. */
static __always_inline __u64 ancestor_id(__u64 cgroup, __u32 level)
{
	struct cgroup *ancestor = NULL;
	__u64 id = 0;

	if (bpf_core_field_exists(struct cgroup___ids, ancestor_ids)) {
		bpf_probe_read_kernel(&id, sizeof(id),
				      (void *)cgroup + level * 8 +
					      bpf_core_field_offset(struct cgroup___ids, ancestor_ids));
		return id;
	}
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor),
			      (void *)cgroup + level * 8 +
				      bpf_core_field_offset(struct cgroup___ancestors, ancestors));
	return BPF_CORE_READ(ancestor, kn, id);
}

/* The tenant of a cgroup, by its address; 0 where nobody was told. */
__noinline __u64 tenant_above(__u64 cgroup, __u64 hierarchy)
{
	int level = BPF_CORE_READ((struct cgroup *)cgroup, level);
	struct tenant *tenant;
	__u64 found = 0, key;

	for (int i = 1; i <= TENANT_LEVELS && i <= level; i++) {
		key = cgroup_key(hierarchy, ancestor_id(cgroup, i));
		tenant = bpf_map_lookup_elem(&tenants, &key);
		if (!tenant)
			continue;
		found = key;
		if (tenant->flags & TENANT_CLOSED)
			break;
	}
	return found;
}

static __always_inline __u32 flags_of(__u64 key)
{
	struct tenant *tenant = bpf_map_lookup_elem(&tenants, &key);

	return tenant ? tenant->flags : 0;
}

/* Grows with whatever is new about tenants. */
static __always_inline __u64 tenants_version(void)
{
	struct control *now = control();

	return now ? now->tenants + now->delegations : 0;
}

/* Whose a cgroup is and which id it goes by: beyond the tenant's quota, that of its outermost. */
__noinline int place_of(struct place *place, __u64 cgroup)
{
	__u64 hierarchy, id, key, version = tenants_version();
	struct place *known, found = {};

	if (!place)
		return 0;
	hierarchy = (__u32)BPF_CORE_READ((struct cgroup *)cgroup, root, hierarchy_id);
	id = BPF_CORE_READ((struct cgroup *)cgroup, kn, id);
	key = cgroup_key(hierarchy, id);
	known = bpf_map_lookup_elem(&places, &key);
	if (known && known->version == version) {
		*place = *known;
		return 0;
	}
	found.tenant = tenant_above(cgroup, hierarchy);
	found.cgroup_id = id;
	found.version = version;
	if (found.tenant && found.tenant != key && flags_of(found.tenant) & TENANT_CLOSED &&
	    !bpf_map_lookup_elem(&told, &key))
		found.cgroup_id = id_of_key(found.tenant);
	bpf_map_update_elem(&places, &key, &found, BPF_ANY);
	*place = found;
	return 0;
}

/* The one of two hierarchies that names the tenant, as identity/translation.py has it. */
__noinline __u64 tenant_of_both(__u64 v2, __u64 v1)
{
	if (v2 && !(flags_of(v2) & TENANT_PLACE))
		return v2;
	if (v1 && flags_of(v1) & TENANT_WORKLOAD)
		return v1;
	return v2 ?: v1 ?: TENANT_HOST;
}

/* Where something of a task goes: the ids that rows carry, and its tenant. */
struct whose {
	__u64 cgroup_id;
	__u64 v1_id;
	__u64 tenant;
};

__noinline int whose_cgroups(struct whose *whose, __u64 v2_cgroup, __u64 v1_cgroup)
{
	/* One for both, and what is next out of line: old kernels count 32 bytes for one. */
	struct place place = {};

	if (!whose)
		return 0;
	place_of(&place, v2_cgroup);
	whose->cgroup_id = place.cgroup_id;
	whose->tenant = place.tenant;
	place.cgroup_id = 0;
	place.tenant = 0;
	if (v1_cgroup)
		place_of(&place, v1_cgroup);
	whose->v1_id = place.cgroup_id;
	whose->tenant = tenant_of_both(whose->tenant, place.tenant);
	return 0;
}

static __always_inline void whose_task(struct whose *whose, const struct task_struct *task)
{
	struct css_set *set = task->cgroups;

	/* A number, not a pointer: the verifier wants it so. */
	whose_cgroups(whose, (__u64)BPF_CORE_READ(set, dfl_cgrp), v1_cgroup(set));
}

/* The host has many cgroups that nobody was told about, and none that stands for them all. */
static __always_inline bool_t has_outermost(__u64 tenant)
{
	return tenant != TENANT_HOST && tenant != NOBODY;
}

/* From now on it goes by its tenant's outermost cgroup. */
static __always_inline void whose_outermost(struct whose *whose)
{
	bool_t unified = !(whose->tenant >> TENANT_HIERARCHY_SHIFT);

	whose->cgroup_id = unified ? id_of_key(whose->tenant) : 0;
	whose->v1_id = unified ? 0 : id_of_key(whose->tenant);
}

static __always_inline bool_t key_excluded(__u64 key)
{
	return bpf_map_lookup_elem(&excluded, &key) != NULL;
}

static __always_inline bool_t in_excluded(__u64 hierarchy, __u64 cgroup_id)
{
	return key_excluded(cgroup_key(hierarchy, cgroup_id));
}

/* All that is a tenant's, whatever it goes by. */
static __always_inline bool_t outermost_excluded(__u64 tenant)
{
	return has_outermost(tenant) && key_excluded(tenant);
}

/* Out of line: few hosts exclude anybody. */
static __noinline int current_excluded(void)
{
	struct whose whose = {};

	whose_task(&whose, current_task());
	return in_excluded(0, whose.cgroup_id) || outermost_excluded(whose.tenant) ||
	       (whose.v1_id && in_excluded(v1_hierarchy, whose.v1_id));
}

static __always_inline bool_t tenant_excluded(void)
{
	struct control *now = control();

	return now && now->excludes && current_excluded();
}

#endif /* COTENANT_TENANT_BPF_H */
