// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which files are mapped as code, by whom, with the inode that a uprobe is really on.
 *
 * User space sees the device of an overlay mount, a different one in each container, for one
 * and the same file; probes on both would fire twice.
 */
#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "kernel/vma.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

LAYOUT(mapping);

struct super_block {
	__u32 s_dev;
} BTF;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	__u32 i_generation;
} BTF;

struct file {
	struct inode *f_inode;
} BTF;

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
} BTF;

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

struct mm_struct {
	struct rw_semaphore mmap_lock;
} BTF;

struct task_struct___memory {
	struct mm_struct *mm;
	struct list_head thread_node;
	struct task_struct___memory *group_leader;
} BTF;

#define RT_FREE ((int)(1U << 31))
#define VM_WRITE 2
#define VM_EXEC 4

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

static __always_inline int tell(struct bpf_iter__task_vma *ctx, unsigned long flags)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct mapping mapping = {};
	struct file *file;

	if (!task || !vma)
		return 0;
	file = vma->vm_file;
	if (!file || (vma->vm_flags & flags) != flags || !speaks(task))
		return 0;
	mapping.pid = task->pid;
	mapping.process = task->tgid;
	mapping.start = vma->vm_start;
	mapping.end = vma->vm_end;
	mapping.offset = vma->vm_pgoff << 12;
	mapping.inode = BPF_CORE_READ(file, f_inode, i_ino);
	mapping.device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	mapping.generation = BPF_CORE_READ(file, f_inode, i_generation);
	mapping.process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	mapping.writable = (vma->vm_flags & VM_WRITE) != 0;
	bpf_seq_write(ctx->meta->seq, &mapping, sizeof(mapping));
	return 0;
}

SEC("?iter/task_vma")
int code_mappings(struct bpf_iter__task_vma *ctx)
{
	return tell(ctx, VM_EXEC);
}

/* How the agent learns the real inode of a file: it maps it, and asks about itself. */
SEC("?iter/task_vma")
int file_mappings(struct bpf_iter__task_vma *ctx)
{
	return tell(ctx, 0);
}

/* Who has locked a process's mappings, as far as that can be told; 0 if nobody has. */
static __always_inline __u64 lock_owner(struct mm_struct *mm)
{
	struct rw_semaphore *lock = &mm->mmap_lock;
	struct rw_semaphore___rt *rt = (void *)lock;
	int readers;

	if (bpf_core_field_exists(rt->rwbase)) {
		readers = BPF_CORE_READ(rt, rwbase.readers.counter);
		return readers == RT_FREE ? 0 : (__u64)(__u32)readers + 1;
	}
	return BPF_CORE_READ(lock, count.counter) ? BPF_CORE_READ(lock, owner.counter) : 0;
}

/*
 * Processes whose mappings are locked just now. A process can keep them locked for as long as it
 * likes, and whoever places a probe in a file that it has mapped waits for it.
 */
SEC("?iter/task")
int locked_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct mapping mapping = {};
	struct mm_struct *mm;

	if (!task || !speaks(task))
		return 0;
	mm = BPF_CORE_READ((struct task_struct___memory *)task, mm);
	if (!mm)
		return 0;
	mapping.start = lock_owner(mm);
	if (!mapping.start)
		return 0;
	mapping.pid = task->pid;
	bpf_seq_write(ctx->meta->seq, &mapping, sizeof(mapping));
	return 0;
}
