/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tenants as the agent tells them to the programs, and what each one uses of what all share.
 *
 * A tenant is known by its outermost cgroup: a key is that cgroup's id, below the number of its
 * hierarchy.
 */
#ifndef COTENANT_TENANT_H
#define COTENANT_TENANT_H

#include "common/event.h"

/* Where no cgroup can be named. */
enum owner_number {
	OWNER_UNTOLD = 0,
	OWNER_NOBODY = -1,	/* the kernel itself */
};
#define NOBODY ((__u64)OWNER_NOBODY)

enum tenant_number {
	TENANT_HIERARCHY_SHIFT = 56,
	TENANT_HOST = 1,	/* the root cgroup, and whatever nobody was told about */
	EXCLUDED_MAX = 65536,	/* cgroups of tenants that are left alone */
	TENANT_CGROUPS = 256,	/* told apart within a tenant; the rest go by its outermost one */
	TENANT_LEVELS = 12,	/* of the tree, in which outermost cgroups are looked for */
};

enum tenant_flags {
	TENANT_CLOSED = 1,	/* all below is its own, whatever it is called */
	TENANT_PLACE = 2,	/* a unit or a user: a workload in a version 1 hierarchy says more */
	TENANT_WORKLOAD = 4,	/* a container or a job */
};

/* Written by the agent alone, but for delegated cgroups, which the kernel notices first. */
struct tenant {
	__u32 flags;
	__u32 reserved;
};

/* Entries of maps that tenants fill. Append only: notes of old recordings name them. */
enum quota {
	QUOTA_cgroups = 0,
	QUOTA_totals = 1,
	QUOTA_spare_totals = 2,
	QUOTA_processes = 3,
	QUOTA_captures = 4,
	QUOTA_members = 5,
	QUOTA_allocations = 6,
	QUOTA_holdings = 7,
	QUOTA_moments = 8,
	QUOTA_primaries = 9,
	/* Records in rings. */
	QUOTA_identities = 10,
	QUOTA_facts = 11,
	QUOTA_names = 12,
	QUOTA_unread = 13,
	QUOTA_births = 14,
	/* Of what the kernel raises. */
	QUOTA_contention = 15,
	QUOTA_dirtied = 16,
	QUOTA_bios = 17,
	QUOTA_requests = 18,
	QUOTA_closed_flows = 19,
	/* What there is room for in each thread, request and process. */
	QUOTA_frames = 20,
	QUOTA_owners = 21,
	QUOTA_uncounted = 22,	/* events that have no total */
	QUOTA_unsent = 23,	/* those of them that were to become rows, and did not */
	QUOTA_END,
};

/* Powers of two, so that a mask is all that the verifier wants to see. */
#define QUOTAS 32
#define PURSES 16

/* Whose room a record takes: that of GPU calls, of a kind of event, or of a kind of fact. */
enum purse {
	PURSE_CALLS = 0,
	PURSE_IDENTITIES = 8,
	PURSE_FACTS = 9,
	PURSE_NAMES = 10,
	PURSE_UNREAD = 11,
	PURSE_BIRTHS = 12,
	PURSE_END,
};

_Static_assert(QUOTA_END <= QUOTAS && PURSE_END <= PURSES, "a power of two more");
_Static_assert((int)EVENT_KIND_END <= (int)PURSE_IDENTITIES, "kinds of events and facts are apart");

/* Counted by the programs alone. */
/* Credit is for room in a ring, see share.bpf.h: for GPU calls first, then by kind of event. */
struct usage {
	__s64 used[QUOTAS];
	__u64 refused[QUOTAS];
	/* When those that it had will be made up for; see in_pace(). */
	__u64 cgroups_until_ns;
	__u64 names_until_ns;
	__s64 credit_bytes[PURSES];
	__u64 credit_consumed[PURSES];	/* the reader's position up to which it was credited */
	__u64 credit_ran_out[PURSES];	/* since it last had plenty */
};

/* Counted by the agent alone. */
struct freed {
	__u64 entries[QUOTAS];
};

/* A map that is divided by quota. */
struct room {
	__u64 most;		/* entries; told by the agent, which loads the map */
	__s64 used;
};

#endif /* COTENANT_TENANT_H */
