/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's types, only the fields we read. The loader moves each access to where the
 * running kernel keeps the field (CO-RE), so neither order nor completeness matters here.
 */
#ifndef COTENANT_KERNEL_H
#define COTENANT_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>

#define BTF __attribute__((preserve_access_index))

typedef int bool_t;

/* The registers of x86-64, in the order of the kernel's ABI; not relocated. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

struct kernfs_node {
	__u64 id;
} BTF;

struct cgroup_root {
	int hierarchy_id;
} BTF;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} BTF;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	int level;
} BTF;

/* Values differ between kernels built with different controllers; always relocated. */
enum cgroup_subsys_id {
	cpuset_cgrp_id,
	cpu_cgrp_id,
	cpuacct_cgrp_id,
	io_cgrp_id,
	memory_cgrp_id,
	devices_cgrp_id,
	freezer_cgrp_id,
	pids_cgrp_id,
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
} BTF;

struct signal_struct {
	struct {
		int counter;
	} live;
} BTF;

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	unsigned int on_rq;	/* Unsigned, so that the loader may narrow it: a byte since v7. */
	void *stack;
	int pid;
	int tgid;
	__u64 start_time;
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct css_set *cgroups;
	struct signal_struct *signal;
	char comm[16];
} BTF;

#endif /* COTENANT_KERNEL_H */
