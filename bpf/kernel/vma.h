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

/* A process whose mappings are locked. */
struct locked {
	__u64 owner;	/* Who has locked them, as far as that can be told. */
	__u64 memory;	/* Its address space. */
	__u32 pid;
	__u32 pad;
};

#endif /* COTENANT_VMA_H */
