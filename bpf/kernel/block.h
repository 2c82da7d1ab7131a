/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's types of block I/O and of the page cache, only the fields we read. */
#ifndef COTENANT_BLOCK_H
#define COTENANT_BLOCK_H

#include "common/kernel.h"

struct blkcg {
	struct cgroup_subsys_state css;
} BTF;

struct blkcg_gq {
	struct blkcg *blkcg;
} BTF;

struct mem_cgroup {
	struct cgroup_subsys_state css;
} BTF;

struct gendisk {
	char disk_name[32];
} BTF;

struct request_queue {
	struct gendisk *disk;
} BTF;

struct block_device {
	void *bd_holder;
} BTF;

struct bvec_iter {
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
} BTF;

/* The same of newer kernels (v7.3), where it has another name. */
struct bvec_iter___offset {
	unsigned int bi_offset;
} BTF;

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
} BTF;

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg;
	struct bio_vec *bi_io_vec;
} BTF;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
	struct bio *bio;
} BTF;

struct inode {
	unsigned short i_mode;
} BTF;

struct address_space {
	struct inode *host;
} BTF;

struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long memcg_data;
	unsigned long _flags_1;
} BTF;

struct page {
	unsigned long compound_head;
} BTF;

/* The same of newer kernels, where it may be a mask: see compound_head(). */
struct page___info {
	unsigned long compound_info;
} BTF;

enum pageflags {
	PG_writeback,
	PG_head,
};

enum req_op {
	REQ_OP_READ = 0,
	REQ_OP_WRITE = 1,
	REQ_OP_FLUSH = 2,
	REQ_OP_DISCARD = 3,
	REQ_OP_SECURE_ERASE = 5,
	REQ_OP_ZONE_APPEND = 7,
	REQ_OP_WRITE_ZEROES = 9,
	REQ_OP_DRV_IN = 34,
};

enum req_flag_bits {
	__REQ_PREFLUSH,
	__REQ_SWAP,
};

#define REQ_OP_MASK 0xff

#endif /* COTENANT_BLOCK_H */
