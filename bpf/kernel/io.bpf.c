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
#include "kernel/page.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(io_event);
VALUES(io_op);

#define BIOS_MAX 512
#define ERROR_IO 5

struct followed {
	__u64 arrived_ns;
	__u64 issued_ns;
	__u64 bytes;
	__u64 done;
	__u64 sector;
	__u64 own;		/* the bio that it came with, if it was seen to come */
	__u64 next;		/* the bio to be looked at */
	char device[16];
	__u32 op;
	__u32 preflush;
	struct owner submitter;
	struct owners owners;
};

/*
 * By request. One that is joined to another or whose device vanishes never completes: it goes when
 * the kernel uses it again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct followed);
} requests SEC(".maps");

static const struct followed no_request;

/*
 * Requests that were refused when they arrived: whoever issues one, perhaps twice, is not who handed
 * it in.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u8);
} refused_requests SEC(".maps");

static __always_inline void folio_dirtied(struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)folio;
	struct dirt dirt = {}, *known;

	/* What a kernel thread dirties it does for somebody: the page says for whom. */
	if (is_kthread(task)) {
		known = bpf_map_lookup_elem(&dirtied, &key);
		if (known && (known->mapping != (__u64)mapping || known->index != folio->index))
			dirt_forget(key, known);
		return;
	}
	dirt.mapping = (__u64)mapping;
	dirt.index = folio->index;
	owner_of_task(&dirt.owner, task);
	dirt.owner.attribution = ATTRIBUTION_dirtier;
	dirt_note(key, &dirt);
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(io_dirty, struct folio *folio, struct address_space *mapping)
{
	return METERED(EVENT_IO, folio_dirtied(folio, mapping));
}

static __always_inline void folio_forgotten(struct folio *folio)
{
	__u64 key = (__u64)folio;
	struct dirt *known = bpf_map_lookup_elem(&dirtied, &key);

	if (known)
		dirt_forget(key, known);
}

SEC("?tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(io_forget, struct folio *folio)
{
	return METERED(EVENT_IO, folio_forgotten(folio));
}

static __always_inline void request_forget(__u64 key, const struct followed *followed)
{
	__u64 tenant = followed->submitter.tenant;

	if (!bpf_map_delete_elem(&requests, &key))
		quota_give(tenant, QUOTA_requests);
}

static __always_inline struct followed *follow(struct request *request, bool_t arrives)
{
	unsigned int flags = request->cmd_flags;
	__u64 key = (__u64)request;
	struct followed *followed;
	__u8 yes = 1;

	if ((flags & REQ_OP_MASK) >= REQ_OP_DRV_IN)
		return NULL;
	followed = bpf_map_lookup_elem(&requests, &key);
	if (followed)
		request_forget(key, followed);
	if (bpf_map_update_elem(&requests, &key, &no_request, BPF_NOEXIST)) {
		count(COUNTER_REQUEST_FULL);
		return NULL;
	}
	followed = bpf_map_lookup_elem(&requests, &key);
	if (!followed)
		return NULL;
	followed->op = flags & REQ_OP_MASK;
	owner_submitter(&followed->submitter, request->bio);
	/* A flush of the device's own. */
	if (!arrives && followed->op == REQ_OP_FLUSH)
		owner_kernel(&followed->submitter);
	if (!quota_take(followed->submitter.tenant, QUOTA_requests, 0)) {
		bpf_map_delete_elem(&requests, &key);
		if (arrives)
			bpf_map_update_elem(&refused_requests, &key, &yes, BPF_ANY);
		return NULL;
	}
	followed->preflush = flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_PREFLUSH) & 1;
	bpf_probe_read_kernel_str(followed->device, sizeof(followed->device),
				  request->q->disk->disk_name);
	return followed;
}

static __always_inline void request_arrives(struct request *request)
{
	struct followed *followed = follow(request, 1);
	struct bio *bio = request->bio;

	if (!followed)
		return;
	followed->arrived_ns = bpf_ktime_get_ns();
	followed->own = (__u64)bio;
	if (bio)
		bio_look(bio, NULL);
}

SEC("?tp_btf/block_io_start")
int BPF_PROG(io_start, struct request *request)
{
	return METERED(EVENT_IO, request_arrives(request));
}

SEC("?tp_btf/block_bio_backmerge")
int BPF_PROG(io_backmerge, struct bio *bio)
{
	bio_look(bio, NULL);
	return 0;
}

SEC("?tp_btf/block_bio_frontmerge")
int BPF_PROG(io_frontmerge, struct bio *bio)
{
	bio_look(bio, NULL);
	return 0;
}

static const struct owner nobody_known = {
	.tenant = TENANT_HOST,
	.attribution = ATTRIBUTION_unknown,
};

/*
 * The owners of one bio join those of its request. A bio may have been merged into the request of
 * somebody else: one that is not noted is the request's own, or nobody knows whose.
 */
static long request_step(__u32 index, void *context)
{
	struct followed *followed = *(struct followed **)context;
	const struct owner *submitter = &followed->submitter;
	__u64 key = followed->next;
	struct carried *carried;

	if (!key)
		return 1;
	if (followed->own && followed->own != key)
		submitter = &nobody_known;
	followed->next = (__u64)BPF_CORE_READ((struct bio *)key, bi_next);
	carried = bpf_map_lookup_elem(&bios, &key);
	if (!carried)
		carried = bio_look((struct bio *)key, submitter);
	if (!carried) {
		owners_add(&followed->owners, submitter,
			   BPF_CORE_READ((struct bio *)key, bi_iter.bi_size));
		return 0;
	}
	for (int i = 0; i < OWNERS_MAX; i++)
		if (i < carried->owners.count)
			owners_add(&followed->owners, &carried->owners.list[i],
				   carried->owners.list[i].bytes);
	followed->owners.untold += carried->owners.untold;
	bio_forget(key);
	return 0;
}

/* A bio of a request that nobody follows: its bytes have no row, whoever they are of. */
static long lost_step(__u32 index, void *context)
{
	__u64 *next = context, key = *next;
	struct carried *carried;

	if (!key)
		return 1;
	*next = (__u64)BPF_CORE_READ((struct bio *)key, bi_next);
	carried = bpf_map_lookup_elem(&bios, &key);
	if (!carried)
		return 0;
	for (int i = 0; i < OWNERS_MAX; i++)
		if (i < carried->owners.count)
			quota_refused(carried->owners.list[i].tenant, QUOTA_bios);
	bio_forget(key);
	return 0;
}

static __always_inline void request_issued(struct request *request)
{
	__u64 key = (__u64)request, now = bpf_ktime_get_ns(), first = (__u64)request->bio;
	struct followed *followed = bpf_map_lookup_elem(&requests, &key);
	bool_t refused = !followed && bpf_map_lookup_elem(&refused_requests, &key);

	/* A flush of the device's own, or a request that was there before us. */
	if (!refused && (!followed || followed->done))
		followed = follow(request, 0);
	if (!followed) {
		bpf_loop(BIOS_MAX, lost_step, &first, 0);
		return;
	}
	if (followed->issued_ns)
		return;
	followed->issued_ns = now;
	followed->bytes = request->__data_len;
	followed->sector = request->__sector;
	followed->next = first;
	bpf_loop(BIOS_MAX, request_step, &followed, 0);
}

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(io_issue, struct request *request)
{
	return METERED(EVENT_IO, request_issued(request));
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

static __noinline int row(const struct followed *followed, struct owner *owner, __u32 bytes,
			  __u64 now, __u32 status)
{
	struct io_event *event;
	struct total *total;
	__u64 began;
	__u16 op;

	if (!followed || !owner || owner_excluded(owner))
		return 0;
	op = io_op_of(followed);
	began = followed->arrived_ns ?: followed->issued_ns;
	total = owner_total(owner, KERNEL_FUNCTION(EVENT_IO, op));
	if (total)
		total_add(total, now - began, bytes);
	event = row_reserve(total, owner, EVENT_IO, sizeof(*event), bytes);
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
	event->weight = row_weight(total, began, bytes);
	event->reserved_last = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void request_completed(struct request *request, __u8 status, unsigned int bytes)
{
	__u64 key = (__u64)request, now = bpf_ktime_get_ns();
	struct followed *followed = bpf_map_lookup_elem(&requests, &key);

	if (!followed) {
		bpf_map_delete_elem(&refused_requests, &key);
		return;
	}
	followed->done += bytes;
	/* A part of it; the rest follows. */
	if (!status && followed->done < followed->bytes)
		return;
	/* For one that only waits for the device's cache, the device issues one of its own. */
	if (!followed->issued_ns)
		bio_forget(followed->own);
	if (!followed->owners.count && !followed->owners.untold)
		row(followed, &followed->submitter, followed->bytes, now, status);
	for (int i = 0; i < OWNERS_MAX; i++)
		if (i < followed->owners.count)
			row(followed, &followed->owners.list[i], followed->owners.list[i].bytes, now,
			    status);
	if (followed->owners.untold) {
		struct owner nobody = nobody_known;

		row(followed, &nobody, followed->owners.untold, now, status);
	}
	request_forget(key, followed);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(io_complete, struct request *request, __u8 status, unsigned int bytes)
{
	return METERED(EVENT_IO, request_completed(request, status, bytes));
}
