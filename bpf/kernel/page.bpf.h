/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose bytes a bio carries: page by page for what goes through the page cache.
 */
#ifndef COTENANT_PAGE_BPF_H
#define COTENANT_PAGE_BPF_H

#include "kernel/block.h"
#include "kernel/owner.bpf.h"

#define OWNERS_MAX 4
#define STEPS_MAX 4096
#define PAGE_SHIFT 12
#define PAGE_SIZE (1 << PAGE_SHIFT)
#define S_IFMT 0170000
#define S_IFBLK 0060000
#define MAPPING_FLAGS 3
#define MEMCG_KIND 7

struct dirt {
	__u64 mapping;
	__u64 index;
	struct owner owner;	/* its bytes: how many were written since */
};

/* By folio. An entry goes when all of it is written, or when it leaves the page cache. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, __u64);
	__type(value, struct dirt);
} dirtied SEC(".maps");

static __always_inline void dirt_forget(__u64 key, const struct dirt *dirt)
{
	__u64 tenant = dirt->owner.tenant;

	if (!bpf_map_delete_elem(&dirtied, &key))
		quota_give(tenant, QUOTA_dirtied);
}

/* The last one who dirties a folio is who writes it. */
static __always_inline void dirt_note(__u64 key, const struct dirt *dirt)
{
	struct dirt *known = bpf_map_lookup_elem(&dirtied, &key);
	__u64 tenant = dirt->owner.tenant;

	if (known && known->owner.tenant == tenant) {
		*known = *dirt;
		return;
	}
	if (known)
		dirt_forget(key, known);
	if (!quota_take(tenant, QUOTA_dirtied, 0))
		return;
	if (bpf_map_update_elem(&dirtied, &key, dirt, BPF_NOEXIST)) {
		quota_give(tenant, QUOTA_dirtied);
		quota_refused(tenant, QUOTA_dirtied);
	}
}

struct owners {
	__u32 count;
	__u32 untold;		/* bytes of more tenants than fit */
	struct owner list[OWNERS_MAX];
};

/* A bio, and how far its pages have been looked at. */
struct carried {
	__u64 vec;
	__u64 page;
	__u32 in_page;
	__u32 in_vec;
	__u32 skip;
	__u32 left;
	__u32 held;		/* the device belongs to a file system */
	__u16 swap;
	__u16 noted;		/* it is one of its submitter's quota */
	struct owner submitter;
	struct owners owners;
};

/* From when it is handed in until its request is issued. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct carried);
} bios SEC(".maps");

static const struct carried no_bio;

static __always_inline void bio_forget(__u64 key)
{
	struct carried *carried = bpf_map_lookup_elem(&bios, &key);
	__u64 tenant;
	__u16 noted;

	if (!carried)
		return;
	tenant = carried->submitter.tenant;
	noted = carried->noted;
	if (!bpf_map_delete_elem(&bios, &key) && noted)
		quota_give(tenant, QUOTA_bios);
}

static __always_inline bool_t same_tenant(const struct owner *one, const struct owner *other)
{
	return one->cgroup_id == other->cgroup_id && one->cgroup_v1_id == other->cgroup_v1_id &&
	       one->hierarchy == other->hierarchy && one->attribution == other->attribution;
}

static __always_inline void owners_add(struct owners *owners, const struct owner *who, __u32 bytes)
{
	for (int i = 0; i < OWNERS_MAX; i++) {
		if (i == owners->count) {
			owners->list[i] = *who;
			owners->list[i].bytes = bytes;
			owners->count = i + 1;
			return;
		}
		if (same_tenant(&owners->list[i], who)) {
			owners->list[i].bytes += bytes;
			return;
		}
	}
	owners->untold += bytes;
	count(COUNTER_OWNERS_FULL);
	quota_refused(who->tenant, QUOTA_owners);
}

static __always_inline void owner_of_cgroup(struct owner *owner, struct cgroup *cgroup,
					    __u16 attribution)
{
	struct place place = {};

	place_of(&place, (__u64)cgroup);
	owner->cgroup_id = place.cgroup_id;
	owner->tenant = place.tenant ?: TENANT_HOST;
	owner->hierarchy = BPF_CORE_READ(cgroup, root, hierarchy_id);
	owner->cgroup_v1_id = 0;
	owner->attribution = attribution;
	owner->process_start_ns = 0;
	owner->pid = 0;
	owner->tid = 0;
	__builtin_memset(owner->comm, 0, sizeof(owner->comm));
}

static __always_inline void owner_kernel(struct owner *owner)
{
	owner->cgroup_id = NOBODY;
	owner->tenant = NOBODY;
	owner->cgroup_v1_id = 0;
	owner->hierarchy = 0;
	owner->attribution = ATTRIBUTION_kernel;
}

/* Who hands in the bio: the task, or whom the kernel thread says that it works for. */
static __always_inline void owner_submitter(struct owner *owner, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cgroup *charged;

	owner_of_task(owner, task);
	if (!is_kthread(task) || !bio)
		return;
	charged = BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup);
	if (charged && BPF_CORE_READ(charged, kn, id) > ROOT_CGROUP)
		owner_of_cgroup(owner, charged, ATTRIBUTION_blkcg);
}

static __always_inline bool_t owner_memcg(struct owner *owner, struct folio *folio)
{
	unsigned long data = BPF_CORE_READ(folio, memcg_data);
	struct mem_cgroup *memcg = (void *)(data & ~MEMCG_KIND);

	/* The low bits say that it is no page of a user. */
	if (!memcg || data & MEMCG_KIND)
		return 0;
	owner_of_cgroup(owner, BPF_CORE_READ(memcg, css.cgroup), ATTRIBUTION_memcg);
	return 1;
}

static __always_inline unsigned long folio_flags(struct folio *folio)
{
	unsigned long flags = 0;

	/* The first word of every page; a number, or since v6.18 a struct around one. */
	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	return flags;
}

static __always_inline bool_t is_block_device(struct address_space *mapping)
{
	return (BPF_CORE_READ(mapping, host, i_mode) & S_IFMT) == S_IFBLK;
}

/* Whose these bytes of a folio are, on their way to the disk. */
static __always_inline void folio_owner(struct carried *bio, struct folio *folio, __u32 bytes,
					__u32 size)
{
	struct address_space *mapping = BPF_CORE_READ(folio, mapping);
	__u64 writeback = 1ULL << bpf_core_enum_value(enum pageflags, PG_writeback);
	__u64 key = (__u64)folio;
	struct owner owner;
	struct dirt *dirt;

	if (bio->swap && owner_memcg(&owner, folio)) {
		owners_add(&bio->owners, &owner, bytes);
		return;
	}
	/* Memory of a process: the bytes of a direct write are its submitter's. */
	if (!mapping || (__u64)mapping & MAPPING_FLAGS) {
		owners_add(&bio->owners, &bio->submitter, bytes);
		return;
	}
	if (bio->held && is_block_device(mapping)) {
		owner = bio->submitter;
		owner_kernel(&owner);
		owners_add(&bio->owners, &owner, bytes);
		return;
	}
	if (!(folio_flags(folio) & writeback)) {
		owners_add(&bio->owners, &bio->submitter, bytes);
		return;
	}
	dirt = bpf_map_lookup_elem(&dirtied, &key);
	if (dirt && dirt->mapping == (__u64)mapping && dirt->index == BPF_CORE_READ(folio, index)) {
		owners_add(&bio->owners, &dirt->owner, bytes);
		if (__sync_fetch_and_add(&dirt->owner.bytes, bytes) + bytes >= size)
			dirt_forget(key, dirt);
		return;
	}
	if (owner_memcg(&owner, folio))
		owners_add(&bio->owners, &owner, bytes);
	else
		owners_add(&bio->owners, &bio->submitter, bytes);
}

/* No struct page lies this high: from here on it is a mask. */
#define MASKS_FROM 0xffffffff00000000ULL

/*
 * The first page of the folio that this page is in. A tail page has bit 0 set in a word that is
 * the first one's address, or, in some kernels from v7 on, the mask that leads to it.
 */
static __always_inline __u64 compound_head(__u64 page)
{
	__u64 word;

	if (bpf_core_field_exists(struct page___info, compound_info))
		word = BPF_CORE_READ((struct page___info *)page, compound_info);
	else
		word = BPF_CORE_READ((struct page *)page, compound_head);
	if (!(word & 1))
		return page;
	return word >= MASKS_FROM ? page & word : word - 1;
}

/* One folio of a bio, or the part of it that the bio has. */
static long bio_step(__u32 index, void *context)
{
	__u64 head_flag = 1ULL << bpf_core_enum_value(enum pageflags, PG_head);
	__u32 page_size = bpf_core_type_size(struct page);
	struct carried *bio = *(struct carried **)context;
	__u64 head, size = PAGE_SIZE, at;
	struct folio *folio;
	__u32 bytes;

	if (!bio->left)
		return 1;
	if (!bio->in_vec) {
		struct bio_vec *vec = (void *)bio->vec;
		__u32 offset = BPF_CORE_READ(vec, bv_offset) + bio->skip;

		bio->page = (__u64)BPF_CORE_READ(vec, bv_page) + (offset >> PAGE_SHIFT) * page_size;
		bio->in_page = offset & (PAGE_SIZE - 1);
		bio->in_vec = BPF_CORE_READ(vec, bv_len) - bio->skip;
		bio->vec += bpf_core_type_size(struct bio_vec);
		bio->skip = 0;
		if (!bio->page || !bio->in_vec)
			return 1;
	}
	head = compound_head(bio->page);
	folio = (void *)head;
	if (head != bio->page || folio_flags(folio) & head_flag)
		size = (__u64)PAGE_SIZE << (BPF_CORE_READ(folio, _flags_1) & 31);
	at = (bio->page - head) / page_size * PAGE_SIZE + bio->in_page;
	if (at >= size)
		size = at + PAGE_SIZE - bio->in_page;
	bytes = size - at;
	if (bytes > bio->in_vec)
		bytes = bio->in_vec;
	if (bytes > bio->left)
		bytes = bio->left;
	folio_owner(bio, folio, bytes, size);
	at = bio->in_page + bytes;
	bio->page += (at >> PAGE_SHIFT) * page_size;
	bio->in_page = at & (PAGE_SIZE - 1);
	bio->in_vec -= bytes;
	bio->left -= bytes;
	return 0;
}

/* How much of the bio's first vector is done already. */
static __always_inline __u32 bio_skip(struct bio *bio)
{
	struct bvec_iter *iter = &bio->bi_iter;

	if (bpf_core_field_exists(struct bvec_iter___offset, bi_offset))
		return BPF_CORE_READ((struct bvec_iter___offset *)iter, bi_offset);
	return BPF_CORE_READ(iter, bi_bvec_done);
}

/* Whose bytes the bio carries; of one that is not noted, the request tells who handed it in. */
static __always_inline struct carried *bio_look(struct bio *bio, const struct owner *submitter)
{
	unsigned int flags = BPF_CORE_READ(bio, bi_opf), op = flags & REQ_OP_MASK;
	__u64 key = (__u64)bio;
	struct carried *carried;

	/* The one that was here before was never issued. */
	bio_forget(key);
	if (bpf_map_update_elem(&bios, &key, &no_bio, BPF_NOEXIST))
		return NULL;
	carried = bpf_map_lookup_elem(&bios, &key);
	if (!carried)
		return NULL;
	if (submitter) {
		carried->submitter = *submitter;
	} else {
		owner_submitter(&carried->submitter, bio);
		if (!quota_take(carried->submitter.tenant, QUOTA_bios, 0)) {
			bpf_map_delete_elem(&bios, &key);
			return NULL;
		}
		carried->noted = 1;
	}
	carried->left = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!carried->left)
		return carried;
	if (op != REQ_OP_WRITE && op != REQ_OP_ZONE_APPEND) {
		owners_add(&carried->owners, &carried->submitter, carried->left);
		return carried;
	}
	carried->held = BPF_CORE_READ(bio, bi_bdev, bd_holder) != NULL;
	carried->swap = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_SWAP) & 1;
	carried->skip = bio_skip(bio);
	carried->vec = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		       BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	bpf_loop(STEPS_MAX, bio_step, &carried, 0);
	/* More pages than we look at. */
	if (carried->left)
		carried->owners.untold += carried->left;
	return carried;
}

#endif /* COTENANT_PAGE_BPF_H */
