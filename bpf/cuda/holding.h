/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* GPU memory that processes hold, as the agent reads it. */
#ifndef COTENANT_HOLDING_H
#define COTENANT_HOLDING_H

#include "common/layout.h"

enum memory_kind {
	MEMORY_DEVICE = 1,
	MEMORY_HOST = 2,
	MEMORY_PHYSICAL = 3,	/* by handle, to be mapped */
	MEMORY_MAPPING = 4,	/* an address at which physical memory is mapped */
};

struct allocation_key {
	__u32 pid;
	__u32 kind;
	__u64 address;
};

struct allocation {
	__u64 bytes;
	__u64 process_start_ns;
	__u64 context;
	__u64 other;		/* of a mapping: the physical memory's handle */
	__u64 tenant;
	__s32 references;
	__u32 reserved;
};

struct holding_key {
	__u64 process_start_ns;
	__u64 context;
	__u32 pid;
	__u32 reserved;
};

struct holding {
	__s64 bytes;
	__s64 allocations;
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u64 tenant;
	__u64 dropped;		/* how often the context was destroyed */
	__u64 missed;		/* allocations that there was no room for: the bytes are not all */
};

#endif /* COTENANT_HOLDING_H */
