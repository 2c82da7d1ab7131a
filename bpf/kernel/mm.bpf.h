/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What processes have mapped, as far as iterators read it.
 */
#ifndef COTENANT_MM_BPF_H
#define COTENANT_MM_BPF_H

#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kernel/mapped_file.bpf.h"
#include "kernel/vma.h"

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
} BTF;

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
} BTF;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} BTF;

struct list_head {
	struct list_head *next;
} BTF;

struct rw_semaphore {
	struct {
		long counter;
	} count;
	struct {
		long counter;
	} owner;
} BTF;

/* That of a real-time kernel. */
struct rwbase_rt {
	struct {
		int counter;
	} readers;
} BTF;

struct rw_semaphore___rt {
	struct rwbase_rt rwbase;
} BTF;

struct maple_tree {
	void *ma_root;
} BTF;

struct maple_range_64 {
	void *slot[16];
} BTF;

struct maple_arange_64 {
	void *slot[10];
} BTF;

struct mm_struct {
	struct rw_semaphore mmap_lock;
	struct maple_tree mm_mt;
} BTF;

/* Before Linux commit 763ecb035029 ("mm: remove the vma linked list") (v6.1). */
struct vm_area_struct___list {
	struct vm_area_struct *vm_next;
} BTF;

struct mm_struct___list {
	struct vm_area_struct *mmap;
} BTF;

struct thread_info {
	__u32 status;
} BTF;

struct task_struct___memory {
	struct thread_info thread_info;
	struct mm_struct *mm;
	struct list_head thread_node;
	struct task_struct___memory *group_leader;
} BTF;

/*
 * Threads share their mappings: one of them speaks for all. The first thread may have ended
 * without the others; then it is the next of the list.
 */
static __always_inline bool_t speaks(struct task_struct *task)
{
	struct task_struct___memory *thread = (void *)task;
	struct task_struct___memory *leader;

	if (task->pid == task->tgid)
		return 1;
	leader = BPF_CORE_READ(thread, group_leader);
	if (BPF_CORE_READ(leader, mm))
		return 0;
	return BPF_CORE_READ(leader, thread_node.next) == &thread->thread_node;
}

#endif /* COTENANT_MM_BPF_H */
