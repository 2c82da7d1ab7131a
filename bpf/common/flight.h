/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef COTENANT_FLIGHT_H
#define COTENANT_FLIGHT_H

#include "common/layout.h"

/* A call under way: the outermost of its thread. */
struct flight {
	__u64 began_ns;
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u64 process_start_ns;
	__u64 stream;
	__u64 communicator;
	__u32 pid;
	__u32 tid;
	__u16 function;
	__u16 kind;
	__u32 known;
	char comm[16];
};

#endif /* COTENANT_FLIGHT_H */
