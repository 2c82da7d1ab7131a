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
LAYOUT(locked);

/*
 * Address spaces that user space asks about, and whether the answer is yes; at 0, the address where
 * it has mapped the file that it asks about.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} asked_memory SEC(".maps");

struct super_block {
	__u32 s_dev;
} BTF;

struct rb_node {
	unsigned long __rb_parent_color;
	struct rb_node *rb_right;
	struct rb_node *rb_left;
} BTF;

struct rb_root {
	struct rb_node *rb_node;
} BTF;

struct rb_root_cached {
	struct rb_root rb_root;
} BTF;

struct address_space {
	struct rb_root_cached i_mmap;
} BTF;

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
	struct address_space *i_mapping;
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
	struct mm_struct *vm_mm;
	struct {
		struct rb_node rb;
	} shared;
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

struct thread_info {
	__u32 status;
} BTF;

struct task_struct___memory {
	struct thread_info thread_info;
	struct mm_struct *mm;
	struct list_head thread_node;
	struct task_struct___memory *group_leader;
} BTF;

#define RT_FREE ((int)(1U << 31))
#define VM_WRITE 2
#define VM_EXEC 4
#define RB_COLOR 3UL
/* Each node is passed twice at most: a file that is mapped 131,072 times, in some 30 ms. */
#define STEPS_MAX (1 << 18)
#define TS_COMPAT 2
#define X32 0x40000000U

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
	struct locked locked = {};
	struct mm_struct *mm;

	if (!task || !speaks(task))
		return 0;
	mm = BPF_CORE_READ((struct task_struct___memory *)task, mm);
	if (!mm)
		return 0;
	locked.owner = lock_owner(mm);
	if (!locked.owner)
		return 0;
	locked.memory = (__u64)mm;
	locked.pid = task->pid;
	bpf_seq_write(ctx->meta->seq, &locked, sizeof(locked));
	return 0;
}

static __always_inline void answer_yes(struct mm_struct *mm)
{
	__u64 key = (__u64)mm;
	__u64 *answer = key ? bpf_map_lookup_elem(&asked_memory, &key) : NULL;

	if (answer)
		*answer = 1;
}

/* Where a walk through a tree is, and where it came from. */
struct walk {
	struct rb_node *node;
	struct rb_node *from;
	struct rb_node *root;
	__u64 whole;
};

/*
 * One node of the tree of a file's mappings. Nobody keeps it from changing meanwhile: whoever comes
 * to a node from none of its neighbours, or out of the tree elsewhere than at its root, has not
 * seen all of it.
 */
static long walk_step(__u32 step, struct walk *walk)
{
	struct rb_node *node = walk->node, *from = walk->from, *next;
	struct rb_node *parent, *left, *right;
	struct vm_area_struct *vma;

	parent = (void *)(BPF_CORE_READ(node, __rb_parent_color) & ~RB_COLOR);
	left = BPF_CORE_READ(node, rb_left);
	right = BPF_CORE_READ(node, rb_right);
	if (from == parent) {
		vma = (void *)node - bpf_core_field_offset(struct vm_area_struct, shared.rb);
		answer_yes(BPF_CORE_READ(vma, vm_mm));
		next = left ? left : right ? right : parent;
	} else if (from == left) {
		next = right ? right : parent;
	} else if (from == right) {
		next = parent;
	} else {
		return 1;
	}
	walk->whole = !next && node == walk->root;
	walk->from = node;
	walk->node = next;
	return !next;
}

/*
 * Which of the address spaces asked about have a file mapped, be it as code or not, without a lock
 * of theirs. Tells the address if it saw all of the file's mappings.
 */
SEC("?iter/task_vma")
int file_mappers(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct address_space *mapping;
	struct walk walk = {};
	__u64 key = 0, *address;
	struct file *file;

	if (!task || !vma || !speaks(task))
		return 0;
	address = bpf_map_lookup_elem(&asked_memory, &key);
	file = vma->vm_file;
	if (!address || !file || vma->vm_start != *address)
		return 0;
	mapping = BPF_CORE_READ(file, f_inode, i_mapping);
	walk.root = walk.node = BPF_CORE_READ(mapping, i_mmap.rb_root.rb_node);
	if (walk.root)
		bpf_loop(STEPS_MAX, walk_step, &walk, 0);
	if (walk.whole && walk.root == BPF_CORE_READ(mapping, i_mmap.rb_root.rb_node))
		bpf_seq_write(ctx->meta->seq, address, sizeof(*address));
	return 0;
}

/* Whether a thread is in a system call that may copy its address space; or was in it last. */
static __always_inline bool_t forks(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct task_struct___memory *thread = (void *)task;
	unsigned long number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &regs->orig_ax);
	switch ((__u32)number & ~X32) {
	case 56: /* clone */
	case 57: /* fork */
	case 58: /* vfork */
	case 435: /* clone3 */
		return 1;
	case 2: /* Those of 32 bits. */
	case 120:
	case 190:
		return (BPF_CORE_READ(thread, thread_info.status) & TS_COMPAT) != 0;
	}
	return 0;
}

/*
 * Which of them a thread is about to copy. It waits for their lock, and whoever places a probe,
 * wherever it be, waits for all who copy theirs.
 */
SEC("?iter/task")
int forking_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && forks(task))
		answer_yes(BPF_CORE_READ((struct task_struct___memory *)task, mm));
	return 0;
}
