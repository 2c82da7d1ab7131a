/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's types of a mapping and of the file that is mapped, only the fields we read. */
#ifndef COTENANT_MAPPED_FILE_BPF_H
#define COTENANT_MAPPED_FILE_BPF_H

#include "common/kernel.h"

#define VM_WRITE 2
#define VM_EXEC 4

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
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

#endif /* COTENANT_MAPPED_FILE_BPF_H */
