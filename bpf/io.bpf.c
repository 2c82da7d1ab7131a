// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Block requests from arrival to completion, and whose they are.
 *
 *   dirty (page cache)  ->  dirtied: who dirtied this folio
 *   start, merge (bio)  ->  bios:    whose bytes this bio carries, while its submitter is current
 *   issue (request)     ->  requests: the owners of all its bios, added up
 *   complete (request)  ->  a row for each owner
 *
 * A completion runs in whatever the interrupt met, and a write is submitted by the flusher, or by
 * whoever calls fsync on somebody else's file. So a write is the dirtier's, page by page; else
 * the memory cgroup's that the page is charged to. What is no file's data is its submitter's, and
 * a kernel thread's is the blkcg's that it works for, or nobody's: journal and metadata.
 */
#include "block.h"
#include "owner.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(io_event);
VALUES(io_op);

#define OWNERS_MAX 4
#define STEPS_MAX 4096
#define BIOS_MAX 512
#define PAGE_SHIFT 12
#define PAGE_SIZE (1 << PAGE_SHIFT)
#define S_IFMT 0170000
#define S_IFBLK 0060000
#define MAPPING_FLAGS 3
#define MEMCG_KIND 7
#define ERROR_IO 5

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
	__u32 swap;
	struct owner submitter;
	struct owners owners;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct carried);
} bios SEC(".maps");

struct followed {
	__u64 arrived_ns;
	__u64 issued_ns;
	__u64 bytes;
	__u64 done;
	__u64 sector;
	__u64 next;		/* the bio to be looked at */
	char device[16];
	__u32 op;
	__u32 preflush;
	struct owner submitter;
	struct owners owners;
};

/* By request. Least used first: a device that vanishes leaves requests that never complete. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct followed);
} requests SEC(".maps");

static const struct carried no_bio;
static const struct followed no_request;

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
}

static __always_inline void owner_of_cgroup(struct owner *owner, struct cgroup *cgroup,
					    __u16 attribution)
{
	owner->cgroup_id = BPF_CORE_READ(cgroup, kn, id);
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

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(io_dirty, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)folio;
	struct dirt dirt = {}, *known;

	/* What a kernel thread dirties it does for somebody: the page says for whom. */
	if (is_kthread(task)) {
		known = bpf_map_lookup_elem(&dirtied, &key);
		if (known && (known->mapping != (__u64)mapping || known->index != folio->index))
			bpf_map_delete_elem(&dirtied, &key);
		return 0;
	}
	dirt.mapping = (__u64)mapping;
	dirt.index = folio->index;
	owner_of_task(&dirt.owner, task);
	dirt.owner.attribution = ATTRIBUTION_dirtier;
	if (bpf_map_update_elem(&dirtied, &key, &dirt, BPF_ANY))
		count(COUNTER_DIRTY_FULL);
	return 0;
}

SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(io_forget, struct folio *folio)
{
	__u64 key = (__u64)folio;

	if (bpf_map_lookup_elem(&dirtied, &key))
		bpf_map_delete_elem(&dirtied, &key);
	return 0;
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
			bpf_map_delete_elem(&dirtied, &key);
		return;
	}
	if (owner_memcg(&owner, folio))
		owners_add(&bio->owners, &owner, bytes);
	else
		owners_add(&bio->owners, &bio->submitter, bytes);
}

/* One folio of a bio, or the part of it that the bio has. */
static long bio_step(__u32 index, void *context)
{
	__u64 head_flag = 1ULL << bpf_core_enum_value(enum pageflags, PG_head);
	__u32 page_size = bpf_core_type_size(struct page);
	struct carried *bio = *(struct carried **)context;
	__u64 head, compound, size = PAGE_SIZE, at;
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
	head = bio->page;
	compound = BPF_CORE_READ((struct page *)head, compound_head);
	if (compound & 1)
		head = compound - 1;
	folio = (void *)head;
	if (compound & 1 || folio_flags(folio) & head_flag)
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

/* Note whose bytes the bio carries, while it is still known who hands it in. */
static __always_inline struct carried *bio_look(struct bio *bio)
{
	unsigned int flags = BPF_CORE_READ(bio, bi_opf), op = flags & REQ_OP_MASK;
	__u64 key = (__u64)bio;
	struct carried *carried;

	if (bpf_map_update_elem(&bios, &key, &no_bio, BPF_ANY))
		return NULL;
	carried = bpf_map_lookup_elem(&bios, &key);
	if (!carried)
		return NULL;
	owner_submitter(&carried->submitter, bio);
	carried->left = BPF_CORE_READ(bio, bi_iter.bi_size);
	if (!carried->left)
		return carried;
	if (op != REQ_OP_WRITE && op != REQ_OP_ZONE_APPEND) {
		owners_add(&carried->owners, &carried->submitter, carried->left);
		return carried;
	}
	carried->held = BPF_CORE_READ(bio, bi_bdev, bd_holder) != NULL;
	carried->swap = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_SWAP) & 1;
	carried->skip = BPF_CORE_READ(bio, bi_iter.bi_bvec_done);
	carried->vec = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		       BPF_CORE_READ(bio, bi_iter.bi_idx) * bpf_core_type_size(struct bio_vec);
	bpf_loop(STEPS_MAX, bio_step, &carried, 0);
	/* More pages than we look at. */
	if (carried->left)
		carried->owners.untold += carried->left;
	return carried;
}

static __always_inline struct followed *follow(struct request *request)
{
	unsigned int flags = request->cmd_flags;
	__u64 key = (__u64)request;
	struct followed *followed;

	if ((flags & REQ_OP_MASK) >= REQ_OP_DRV_IN)
		return NULL;
	if (bpf_map_update_elem(&requests, &key, &no_request, BPF_ANY)) {
		count(COUNTER_REQUEST_FULL);
		return NULL;
	}
	followed = bpf_map_lookup_elem(&requests, &key);
	if (!followed)
		return NULL;
	followed->op = flags & REQ_OP_MASK;
	followed->preflush = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) & 1;
	bpf_probe_read_kernel_str(followed->device, sizeof(followed->device),
				  request->q->disk->disk_name);
	return followed;
}

SEC("?tp_btf/block_io_start")
int BPF_PROG(io_start, struct request *request)
{
	struct followed *followed = follow(request);
	struct bio *bio = request->bio;

	if (!followed)
		return 0;
	followed->arrived_ns = bpf_ktime_get_ns();
	owner_submitter(&followed->submitter, bio);
	if (bio)
		bio_look(bio);
	return 0;
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(io_backmerge, struct bio *bio)
{
	bio_look(bio);
	return 0;
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(io_frontmerge, struct bio *bio)
{
	bio_look(bio);
	return 0;
}

/* The owners of one bio join those of its request. */
static long request_step(__u32 index, void *context)
{
	struct followed *followed = *(struct followed **)context;
	__u64 key = followed->next;
	struct carried *carried;

	if (!key)
		return 1;
	followed->next = (__u64)BPF_CORE_READ((struct bio *)key, bi_next);
	carried = bpf_map_lookup_elem(&bios, &key);
	if (!carried)
		carried = bio_look((struct bio *)key);
	if (!carried)
		return 0;
	for (int i = 0; i < OWNERS_MAX; i++)
		if (i < carried->owners.count)
			owners_add(&followed->owners, &carried->owners.list[i],
				   carried->owners.list[i].bytes);
	followed->owners.untold += carried->owners.untold;
	bpf_map_delete_elem(&bios, &key);
	return 0;
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(io_issue, struct request *request)
{
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct followed *followed = bpf_map_lookup_elem(&requests, &key);

	/* A flush of the device's own, or a request that was there before us. */
	if (!followed || followed->done) {
		followed = follow(request);
		if (!followed)
			return 0;
		owner_submitter(&followed->submitter, request->bio);
		if (followed->op == REQ_OP_FLUSH)
			owner_kernel(&followed->submitter);
	}
	if (followed->issued_ns)
		return 0;
	followed->issued_ns = now;
	followed->bytes = request->__data_len;
	followed->sector = request->__sector;
	followed->next = (__u64)request->bio;
	bpf_loop(BIOS_MAX, request_step, &followed, 0);
	return 0;
}

static __always_inline __u16 io_op_of(const struct followed *followed)
{
	switch (followed->op) {
	case REQ_OP_READ:
		return IO_OP_read;
	case REQ_OP_WRITE:
		/* Nothing to write: it waits for the device's cache to be empty. */
		if (followed->preflush && !followed->bytes)
			return IO_OP_flush;
		return IO_OP_write;
	case REQ_OP_ZONE_APPEND:
	case REQ_OP_WRITE_ZEROES:
		return IO_OP_write;
	case REQ_OP_FLUSH:
		return IO_OP_flush;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return IO_OP_discard;
	}
	return IO_OP_other;
}

/* As in the kernel's table of block errors. */
static __always_inline __s32 errno_of(__u8 status)
{
	switch (status) {
	case 0:
		return 0;
	case 1:
		return 95;	/* EOPNOTSUPP */
	case 2:
		return 110;	/* ETIMEDOUT */
	case 3:
		return 28;	/* ENOSPC */
	case 4:
		return 67;	/* ENOLINK */
	case 5:
		return 121;	/* EREMOTEIO */
	case 6:
		return 52;	/* EBADE */
	case 7:
		return 61;	/* ENODATA */
	case 8:
		return 84;	/* EILSEQ */
	case 9:
		return 12;	/* ENOMEM */
	case 12:
		return 11;	/* EAGAIN */
	}
	return ERROR_IO;
}

static __noinline int row(const struct followed *followed, const struct owner *owner, __u32 bytes,
			  __u64 now, __u32 status)
{
	struct io_event *event;
	struct total *total;
	__u64 began;
	__u16 op;

	if (!followed || !owner || owner_excluded(owner->cgroup_id))
		return 0;
	op = io_op_of(followed);
	began = followed->arrived_ns ?: followed->issued_ns;
	total = owner_total(owner, KERNEL_FUNCTION(EVENT_IO, op));
	if (total)
		total_add(total, now - began, bytes);
	event = row_reserve(total, sizeof(*event));
	if (!event)
		return 0;
	head_of(&event->head, owner, EVENT_IO, sizeof(*event), began);
	event->op = op;
	event->known = 0;
	event->reserved = 0;
	event->duration_ns = now - began;
	event->queue_ns = 0;
	if (followed->arrived_ns && followed->issued_ns) {
		event->queue_ns = followed->issued_ns - followed->arrived_ns;
		event->known = 1 << IO_KNOWN_QUEUE;
	}
	event->bytes = bytes;
	__builtin_memcpy(event->device, followed->device, sizeof(event->device));
	event->sector = followed->sector;
	event->error = errno_of(status);
	event->attribution = owner->attribution;
	event->reserved_too = 0;
	event->weight = row_weight(total);
	event->reserved_last = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(io_complete, struct request *request, __u8 status, unsigned int bytes)
{
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct followed *followed = bpf_map_lookup_elem(&requests, &key);

	if (!followed)
		return 0;
	followed->done += bytes;
	/* A part of it; the rest follows. */
	if (!status && followed->done < followed->bytes)
		return 0;
	if (!followed->owners.count && !followed->owners.untold)
		row(followed, &followed->submitter, followed->bytes, now, status);
	for (int i = 0; i < OWNERS_MAX; i++)
		if (i < followed->owners.count)
			row(followed, &followed->owners.list[i], followed->owners.list[i].bytes, now,
			    status);
	if (followed->owners.untold) {
		struct owner nobody = {.attribution = ATTRIBUTION_unknown};

		row(followed, &nobody, followed->owners.untold, now, status);
	}
	bpf_map_delete_elem(&requests, &key);
	return 0;
}
