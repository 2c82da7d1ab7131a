// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who keeps its mappings locked, who has a file mapped, and which FUSE files a process has: all of it
 * read without a lock. Whoever places or removes a probe waits for these locks.
 */
#include "kernel/mm.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

LAYOUT(memory_lock);
VALUES(lock_state);

/*
 * What user space asks about, at ASKED, and the answers: address spaces that have a file mapped, or
 * devices of FUSE that an address space has files of.
 */
#define ASKED 0
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, __u64);
} answers SEC(".maps");

#define RT_FREE ((int)(1U << 31))
#define RT_WRITER (1 << 30)
/* Of the count of a lock: that a writer has it, and how many readers do; other bits are flags. */
#define WRITER_LOCKED 1UL
#define READERS_SHIFT 8
#define READERS_MAX ((1UL << 54) - 1)
#define OWNER_FLAGS 7UL
#define RB_COLOR 3UL
/* Each node is passed twice at most: a file that is mapped 131,072 times, in some 30 ms. */
#define STEPS_MAX (1 << 18)
#define TS_COMPAT 2
#define X32 0x40000000U

/* Flags of waiters come and go while the lock is held: they are no part of its state. */
static __always_inline __u32 lock_state(struct rw_semaphore *lock)
{
	struct rw_semaphore___rt *rt = (void *)lock;
	unsigned long count;
	int readers;

	if (bpf_core_field_exists(rt->rwbase)) {
		readers = BPF_CORE_READ(rt, rwbase.readers.counter);
		return readers == RT_FREE ? LOCK_STATE_free :
		       readers == RT_WRITER ? LOCK_STATE_write : LOCK_STATE_read;
	}
	count = BPF_CORE_READ(lock, count.counter);
	if (count & WRITER_LOCKED)
		return LOCK_STATE_write;
	return count >> READERS_SHIFT & READERS_MAX ? LOCK_STATE_read : LOCK_STATE_free;
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
 * Every process with the state of the lock of its mappings, read without waiting for any: one
 * thread of each, and those that may be about to copy a locked address space.
 */
SEC("?iter/task")
int memory_locks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct memory_lock found = {};
	struct rw_semaphore___rt *rt;
	struct task_struct *owner;
	struct mm_struct *mm;
	bool_t first;

	if (!task)
		return 0;
	mm = BPF_CORE_READ((struct task_struct___memory *)task, mm);
	if (!mm)
		return 0;
	first = speaks(task);
	found.state = lock_state(&mm->mmap_lock);
	if (found.state)
		found.forking = forks(task);
	if (!first && !found.forking)
		return 0;
	rt = (void *)&mm->mmap_lock;
	if (found.state && !bpf_core_field_exists(rt->rwbase)) {
		owner = (void *)(BPF_CORE_READ(mm, mmap_lock.owner.counter) & ~OWNER_FLAGS);
		found.owner = (__u64)owner;
		found.holder = BPF_CORE_READ(owner, pid);
	}
	found.memory = (__u64)mm;
	found.pid = task->pid;
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

/* False if there is no room for it. */
static __always_inline bool_t answer(__u64 found)
{
	__u64 yes = 1;

	return !bpf_map_update_elem(&answers, &found, &yes, BPF_ANY);
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
		if (!answer((__u64)BPF_CORE_READ(vma, vm_mm)))
			return 1;
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
 * Which address spaces have the file mapped that we have mapped at the address asked about, be it as
 * code or not, without a lock of theirs. Writes the address if it saw all of the file's mappings.
 */
SEC("?iter/task_vma")
int file_mappers(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct address_space *mapping;
	__u64 key = ASKED, *address;
	struct walk walk = {};
	struct file *file;

	if (!task || !vma || !speaks(task))
		return 0;
	address = bpf_map_lookup_elem(&answers, &key);
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

#define FUSE_MAGIC 0x65735546
/* Nodes of the tree of mappings that are known and not yet read; each has ten to sixteen. */
#define NODES_MAX 4096
#define NODE_MASK 255UL
#define NODE_TYPE(node) ((__u64)(node) >> 3 & 15)
#define NODE_LEAF 1	/* And what is less. */
#define NODE_RANGE 2
#define POINTER_LEAST 4096UL

struct tree {
	__u32 count;
	void *nodes[NODES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tree);
} trees SEC(".maps");

struct of_fuse {
	struct mm_struct *mm;
	struct tree *tree;
	struct vm_area_struct *next;
};

static __always_inline void answer_if_fuse(struct mm_struct *mm, struct vm_area_struct *vma)
{
	struct super_block *super;
	struct file *file;

	if (BPF_CORE_READ(vma, vm_mm) != mm)
		return;
	file = BPF_CORE_READ(vma, vm_file);
	if (!file)
		return;
	super = BPF_CORE_READ(file, f_inode, i_sb);
	if (BPF_CORE_READ(super, s_magic) == FUSE_MAGIC)
		answer(BPF_CORE_READ(super, s_dev));
}

/* One node: its children join those that are to be read, or they are mappings themselves. */
static long tree_step(__u32 step, struct of_fuse *of)
{
	struct tree *tree = of->tree;
	__u64 node, type, slots, count;
	void *child;

	if (!tree || step >= NODES_MAX || step >= tree->count)
		return 1;
	node = (__u64)tree->nodes[step];
	type = NODE_TYPE(node);
	slots = node & ~NODE_MASK;
	slots += type > NODE_RANGE ? bpf_core_field_offset(struct maple_arange_64, slot) :
				     bpf_core_field_offset(struct maple_range_64, slot);
	count = type > NODE_RANGE ? 10 : 16;
	for (__u32 i = 0; i < 16; i++) {
		if (i >= count)
			break;
		child = NULL;
		bpf_probe_read_kernel(&child, sizeof(child), (void *)(slots + i * sizeof(child)));
		if ((__u64)child < POINTER_LEAST)
			continue;
		if (type <= NODE_LEAF)
			answer_if_fuse(of->mm, child);
		else if (tree->count < NODES_MAX)
			tree->nodes[tree->count++ & (NODES_MAX - 1)] = child;
	}
	return 0;
}

static long list_step(__u32 step, struct of_fuse *of)
{
	struct vm_area_struct___list *vma = (void *)of->next;

	if (!vma)
		return 1;
	answer_if_fuse(of->mm, of->next);
	of->next = BPF_CORE_READ(vma, vm_next);
	return 0;
}

/*
 * Devices of FUSE whose files the address space asked about has mapped. Its lock is held by who waits
 * for one of them, so its mappings stay as they are.
 */
SEC("?iter/task")
int fuse_mapped(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct mm_struct___list *listed;
	__u64 key = ASKED, *asked;
	struct of_fuse of = {};
	struct mm_struct *mm;
	__u32 zero = 0;
	void *root;

	if (!task || !speaks(task))
		return 0;
	mm = BPF_CORE_READ((struct task_struct___memory *)task, mm);
	asked = bpf_map_lookup_elem(&answers, &key);
	if (!asked || !mm || (__u64)mm != *asked)
		return 0;
	of.mm = mm;
	listed = (void *)mm;
	if (bpf_core_field_exists(listed->mmap)) {
		of.next = BPF_CORE_READ(listed, mmap);
		bpf_loop(STEPS_MAX, list_step, &of, 0);
		return 0;
	}
	of.tree = bpf_map_lookup_elem(&trees, &zero);
	if (!of.tree)
		return 0;
	root = BPF_CORE_READ(mm, mm_mt.ma_root);
	if (((__u64)root & 3) != 2) {
		answer_if_fuse(mm, root);
		return 0;
	}
	of.tree->nodes[0] = root;
	of.tree->count = 1;
	bpf_loop(NODES_MAX, tree_step, &of, 0);
	return 0;
}
