// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which files are mapped as code, by whom, with the inode that a uprobe is really on.
 *
 * User space sees the device of an overlay mount, a different one in each container, for one
 * and the same file; probes on both would fire twice.
 */
#include "kernel/mm.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

LAYOUT(mapping);


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
