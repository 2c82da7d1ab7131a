/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef COTENANT_VMA_H
#define COTENANT_VMA_H

#include "common/layout.h"

struct mapping {
	__u32 pid;
	__u32 device;
	__u64 inode;
	__u64 start;
	__u64 end;
	__u64 offset;
	__u64 process_start_ns;
	__u32 generation;
	__u32 writable;
	__u32 process;	/* Of which pid is a thread, if its first one has ended. */
	__u32 pad;
};

enum lock_state {
	LOCK_STATE_free = 0,
	LOCK_STATE_read = 1,
	LOCK_STATE_write = 2,
};

/* A process, and the lock of its mappings. */
struct memory_lock {
	__u64 memory;	/* Its address space. */
	__u64 owner;	/* The task that took the lock last, as far as that is known. */
	__u32 pid;
	__u32 holder;	/* The pid of the owner. */
	__u32 state;
	__u32 forking;	/* Whether this thread may be about to copy the address space. */
};

#endif /* COTENANT_VMA_H */
