// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Wakes the helper when a process maps a file as code that is not settled for its cgroup. Of each
 * such mapping there is a perf record by then, which has its path; nothing else of perf's wakes.
 */
#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kernel/mapped_file.bpf.h"
#include "kernel/sighting.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Files that the helper has read and found to be of no interest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct sighted_file);
	__type(value, __u8);
} settled SEC(".maps");

/* Which entries of the above count: the helper adds one to make every file new again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} settled_version SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SIGHTINGS_RING_BYTES);
} sightings SEC(".maps");

/* At its end: the kernel has written its record. */
SEC("?fexit/perf_event_mmap")
int BPF_PROG(code_mapped, struct vm_area_struct *vma)
{
	struct sighting sighting = {};
	struct css_set *set;
	__u64 *version;
	struct file *file;
	__u32 zero = 0;

	if (!(vma->vm_flags & VM_EXEC))
		return 0;
	file = vma->vm_file;
	if (!file)
		return 0;
	set = BPF_CORE_READ((struct task_struct *)bpf_get_current_task_btf(), cgroups);
	sighting.file.cgroups = (__u64)set;
	sighting.file.cgroup_id = BPF_CORE_READ(set, dfl_cgrp, kn, id);
	sighting.file.inode = BPF_CORE_READ(file, f_inode, i_ino);
	sighting.file.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	sighting.file.generation = BPF_CORE_READ(file, f_inode, i_generation);
	version = bpf_map_lookup_elem(&settled_version, &zero);
	sighting.file.version = version ? *version : 0;
	if (bpf_map_lookup_elem(&settled, &sighting.file))
		return 0;
	sighting.start = vma->vm_start;
	sighting.pid = bpf_get_current_pid_tgid() >> 32;
	/* Where there is no room, the helper has been woken and has not come yet. */
	bpf_ringbuf_output(&sightings, &sighting, sizeof(sighting), 0);
	return 0;
}
