/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel and the native module say to each other about mapped files. */
#ifndef COTENANT_SIGHTING_H
#define COTENANT_SIGHTING_H

#include <linux/types.h>

#define SIGHTINGS_RING_BYTES (1 << 17)

/*
 * A file as processes map it that are in the same cgroups of all hierarchies. Where only version 1
 * tells those apart, their address may be used again: then a sighting comes up to a second late.
 */
struct sighted_file {
	__u64 cgroups;
	__u64 cgroup_id;
	__u64 inode;
	__u32 device;
	__u32 generation;
	__u64 version;
};

struct sighting {
	struct sighted_file file;
	__u64 start;
	__u32 pid;
	__u32 pad;
};

#endif /* COTENANT_SIGHTING_H */
