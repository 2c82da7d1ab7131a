/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans: when a process had work on a stream, from the first operation on it to the call that
 * proves the stream done. docs/how/spans.md says which call proves what.
 *
 *   rows  ->  operations and proofs of a queue  ->  settled  ->  spans, each with its mix
 *
 * Rows come when their call returns, and are ordered by that. Where two calls prove something,
 * the one that returned first counts. Proofs wait a little, since rows may come out of order.
 */
#ifndef COTENANT_SPANS_H
#define COTENANT_SPANS_H

#include <stddef.h>
#include <stdint.h>

#include "drain.h"
#include "table.h"

enum work {
	WORK_NONE,
	WORK_LAUNCH,
	WORK_COPY,
	WORK_OTHER,
};

/* Of a signature. */
enum {
	SIG_SIZED = 1,		/* `size` is known */
	SIG_SIZED_BY_BYTES = 2,	/* the size is the row's bytes */
	SIG_COLLECTIVE = 4,
	SIG_CONTEXT = 8,
	SIG_PROVES_STREAM = 16,
	SIG_PROVES_CONTEXT = 32,	/* all its streams */
	SIG_PROVES_BLOCKING = 64,	/* of its streams, the default one and the blocking ones */
	SIG_IF_LARGE = 128,	/* only if its bytes are many; else it ends by itself */
	SIG_WAITS = 256,
	SIG_RECORDED = 512,	/* only what was queued by the time in `bytes` */
	SIG_WOKEN = 1024,	/* how `seen` is known: its thread was woken then */
	SIG_SPUN = 2048,	/* it span until then */
	SIG_NOT_READY = 4096,	/* it asked, and the stream was not done */
	SIG_BLOCKING = 8192,	/* the stream is; neither of these two if that is not known */
	SIG_NON_BLOCKING = 16384,
};

#define SHORT_WAIT_US 128
#define EXTENT_SCALE 25	/* bytes that a link moves in the time of one thread */

/* Why a span ended; a stored enumeration in agent/recorder/ingest/spans.py. */
enum closed_by {
	CLOSED_BY_PROOF = 1,
	CLOSED_BY_EXIT = 2,	/* the process ended */
	CLOSED_BY_AGE = 3,	/* held for too long */
	CLOSED_BY_STOP = 4,	/* the recording ended */
};

/* What rows of one signature have in common, as the recorder tells it. */
struct signature {
	uint64_t process_start_ns;
	int64_t stream;
	int64_t cgroup_id;
	uint64_t context;
	uint64_t tenant;	/* a number of the recorder's, one for all its cgroups */
	int64_t size;
	uint32_t pid;
	int32_t gpu;		/* a number of the recorder's, -1 if not known */
	uint16_t api;
	uint16_t flags;
	uint8_t work;
	uint8_t reserved[3];
};

/* A batch of rows, column by column. */
struct rows {
	const struct signature *signatures;
	const int32_t *codes;
	const int64_t *began_ns;
	const uint64_t *took_ns;
	const uint64_t *bytes;
	const uint64_t *names;
	const int64_t *seen_ns;
	const uint64_t *weights;
	size_t count;
	size_t nsignatures;
};

/* One operation in its mix: what ran, in which size. */
struct item {
	struct node node;
	uint64_t name;		/* a hash of the kernel's name */
	int64_t size;
	uint64_t context;
	int32_t gpu;
	uint8_t work;
	uint8_t flags;
	uint16_t reserved;
	uint32_t number;
	uint64_t salt[2];	/* what it adds to the sum that identifies a mix */
};

/* Queued when its call returned: only then is it certain that a wait has seen it. */
struct op {
	int64_t began_ns;
	int64_t took_ns;
	uint32_t item;
	uint32_t weight;
};

struct proof {
	int64_t began_ns;
	int64_t took_ns;
	int64_t cover_ns;	/* proves what was queued by then */
	int64_t seen_ns;	/* its thread saw the device done; 0 if that is not known */
	int64_t last_ns;	/* when the last of what it proved was queued */
	uint64_t came_ns;	/* on the recorder's clock */
	uint32_t closed;	/* streams of which it closed spans */
	uint32_t delay_ns;	/* the device was done so long before that, at most */
	uint32_t margin_ns;	/* of what is certain, the least; of a copy by itself, its transfer */
	uint16_t api;
	uint8_t itself;		/* proves the copy that it is, once the device came to it */
	uint8_t not_ready;	/* its thread saw the device at work, not done */
};

struct count {
	uint32_t item;
	uint64_t weight;
};

/* Several operations added up. */
struct sum {
	int64_t first_ns;
	int64_t last_ns;	/* when the last was queued */
	int64_t launches;
	int64_t copies;
	int64_t copied_bytes;
	int64_t collectives;
	int64_t shed;
	__int128 extent;	/* in 25ths of a thread */
	uint64_t salt[2];
	uint64_t ops;
	uint64_t context;
	int32_t gpu;
	uint8_t has_context;
	uint8_t mixless;	/* of too many kinds to keep */
};

/* What a tenant has of the room that all share; it may have as much as is still free. */
struct tenant {
	struct node node;
	uint64_t number;
	uint64_t processes;
	uint64_t queues;
	uint64_t extra;		/* operations beyond the first few of each queue */
	uint64_t kinds;		/* of operations that are added up */
	uint64_t proofs;	/* that wait for calls that began before them */
	uint64_t refused;	/* operations, since the recorder asked */
	uint32_t slept;		/* waits that slept, and how long the short ones took, in us */
	uint32_t short_waits[SHORT_WAIT_US];
};

/* A context of a process, and what proves all its streams done, or the blocking ones. */
struct context {
	struct node node;
	struct process *process;
	uint64_t number;	/* 0 where it is not known */
	uint32_t streams;
	uint64_t visit;		/* as of which its proofs are in order */
	int64_t pending_ns;	/* when the first of what is not proven began that copies wait for */
	struct buffer proofs;
	struct buffer blocking_proofs;
};

enum stream_kind {
	STREAM_PLAIN,
	STREAM_COPIES,	/* of the default stream: small ones, which end by themselves */
};

/* A stream of a process, and what proves it done, from whichever cgroup. */
struct stream {
	struct node node;
	struct process *process;
	struct context *context;
	int64_t number;
	struct queue *first;	/* the others follow it in the process's list */
	struct buffer proofs;
	int64_t kept_ns;	/* proofs that end by then are kept: they wait for other streams */
	uint8_t kind;
	uint8_t non_blocking;
	uint8_t blocking;
};

/* What a process queued on a stream from one cgroup. */
struct queue {
	struct node node;
	struct process *process;
	struct tenant *tenant;
	struct stream *stream;
	struct queue *next;	/* of its process */
	int64_t cgroup_id;
	struct buffer ops;
	struct buffer folded_items;	/* struct count */
	size_t merged;			/* bytes of these that have one count for each item */
	uint64_t kinds;			/* that its tenant has for it */
	struct sum folded;
	int64_t before_ns;	/* end of the span before */
	int64_t carried_ns;	/* a span that nothing proved ended for its age: when its last was queued */
	uint64_t carried_context;
	int32_t carried_gpu;
	uint64_t since_ns;	/* when the oldest operation came, on the recorder's clock */
	uint32_t head;		/* operations at the front that are in a span already */
	uint8_t has_before;
	uint8_t carried;
	uint8_t carried_has_context;
	uint8_t unordered;
};

struct process {
	struct node node;
	uint64_t start_ns;
	uint32_t pid;
	uint32_t generation;
	struct tenant *tenant;	/* that it was of when it came: it may move */
	struct queue *queues;
	uint64_t gone_ns;	/* when that was reported, on the recorder's clock */
	int64_t ended_ns;
	uint64_t used_ns;
	uint32_t nqueues;
	uint32_t nops;
	uint32_t nproofs;	/* of its streams and contexts */
	uint32_t unproven;
	uint32_t fresh;		/* operations since proofs were last taken to make room */
};

/* A span as the recorder gets it. */
struct span {
	int64_t start_ns;
	int64_t end_ns;
	int64_t proof_ns;
	int64_t waited_ns;
	int64_t done_ns;	/* these three: 0 if not known */
	int64_t certain_from_ns;
	int64_t certain_until_ns;
	int64_t queued_ns;	/* when its first operation began */
	int64_t stream;
	int64_t cgroup_id;
	uint64_t context;
	int64_t launches;
	int64_t copies;
	int64_t copied_bytes;
	int64_t collectives;
	int64_t shed;
	double extent;
	uint32_t pid;
	int32_t gpu;
	uint32_t streams;
	int32_t mix;		/* -1 if it has too many operations to keep */
	uint16_t api;
	uint8_t closed_by;
	uint8_t has_context;
	uint32_t non_blocking;	/* its stream is */
};

/* Work that a small copy waits for. */
struct earlier {
	const struct context *context;
	int64_t queued_ns;
	int64_t end_ns;
};

/* What a tenant did on a GPU in one second. */
struct second {
	struct node node;
	int64_t number;		/* seconds since 1970 */
	int64_t cgroup_id;
	int64_t launches;
	int64_t waits;
	int64_t waited_ns;
	int64_t copied_bytes;
	int32_t gpu;
};

struct mix {
	struct node node;
	uint64_t salt;		/* the other half of the sum */
	int32_t number;
};

struct spans {
	uint64_t seed[2];
	uint64_t settle_ns;
	uint64_t hold_ns;
	int64_t boundary_ns;	/* what began before is of another recording */
	uint64_t now_ns;
	int64_t utc_ns;
	uint64_t visit;
	struct table tenants;
	struct table processes;
	struct table contexts;
	struct table streams;
	struct table queues;
	struct table items;
	struct table mixes;
	struct table seconds;
	struct item **by_number;
	uint32_t nitems;
	uint32_t room;
	uint32_t told_items;
	struct buffer closed;		/* struct span */
	struct buffer open;		/* struct span, as far as it is known */
	struct buffer mix_sizes;	/* of new mixes: uint32 each */
	struct buffer mix_items;	/* struct count, of all new mixes */
	struct buffer scratch;		/* struct count; struct closing */
	struct buffer provers;		/* struct proof *, of the spans that are being closed */
	struct buffer earlier;		/* struct earlier */
	uint64_t epoch;			/* numbers of items and mixes are valid within one */
	uint64_t refused;		/* operations for which there was no room */
	uint64_t held;			/* operations that are in no span yet */
	uint64_t extra;			/* of all tenants */
	uint64_t kinds;			/* of all tenants */
	uint64_t proofs;		/* of all tenants */
};

/* span_rows.c */
#define COPY_NS 1500
#define LINK_BYTES_PER_NS 25
int rows_add(struct spans *spans, const struct rows *rows);

/* span_items.c */
struct item *item_of(struct spans *spans, const struct item *wanted);
int32_t mix_find(const struct spans *spans, const struct sum *sum);
int32_t mix_make(struct spans *spans, const struct sum *sum, struct buffer *counts);
int items_renew(struct spans *spans);
void items_free(struct spans *spans);
void counts_merge(const struct spans *spans, struct buffer *counts);

/* span_seconds.c */
struct second *second_of(struct spans *spans, const struct signature *sig, int64_t number);
void second_add(struct second *second, const struct signature *sig, int64_t took_ns,
		uint64_t bytes, uint32_t weight);
int seconds_take(struct spans *spans, struct buffer *taken);
void seconds_free(struct spans *spans);

/* span_tenants.c */
void tenant_slept(struct tenant *tenant, int64_t waited_ns);
/* How long after the device was done a sleeping thread is woken, at most. */
int64_t tenant_delay_ns(const struct tenant *tenant);
struct tenant *tenant_of(struct spans *spans, uint64_t number);
void tenant_refuse(struct spans *spans, struct tenant *tenant, uint32_t weight);
/* The number of each, and what it was refused since; those that have nothing are forgotten. */
int tenants_take(struct spans *spans, struct buffer *taken);
void tenants_free(struct spans *spans);

/* span_queues.c */
struct process *process_find(const struct spans *spans, uint32_t pid, uint64_t start_ns,
			     uint32_t generation);
/* As long as there is room for this tenant, one that is not known yet is made. */
struct process *process_of(struct spans *spans, struct tenant *tenant, uint32_t pid,
			   uint64_t start_ns, uint32_t generation);
struct context *context_find(const struct spans *spans, const struct process *process,
			     uint64_t number);
/* Only streams with a handle are the same stream in any context. */
struct queue *queue_of(struct spans *spans, struct tenant *tenant, struct process *process,
		       const struct signature *sig, enum stream_kind kind);
/* The stream, if anything was queued on it. */
struct stream *stream_find(const struct spans *spans, const struct process *process,
			   const struct signature *sig, enum stream_kind kind);
int queue_add(struct spans *spans, struct queue *queue, const struct op *op);
/* Let go of the first operations; the room that they took is given back by queue_tidy. */
void queue_drop(struct spans *spans, struct queue *queue, uint32_t ops);
void queue_tidy(struct queue *queue);
/* What was added up is of too many kinds to keep, or has one count for each. */
void queue_merge(struct spans *spans, struct queue *queue);
void queue_forget_kinds(struct spans *spans, struct queue *queue);
/* When the oldest operation of all queues began; INT64_MAX without any. */
int64_t queues_oldest(const struct spans *spans);
void queue_free(struct spans *spans, struct queue *queue);
void process_free(struct spans *spans, struct process *process);

/* span_sums.c */
void sum_add(struct spans *spans, struct sum *sum, const struct op *op);
void sum_join(struct sum *sum, const struct sum *other);

/* span_proofs.c */
int proof_add(struct spans *spans, struct process *process, struct buffer *proofs,
	      const struct proof *proof);
int proof_order(const void *one, const void *other);
void proofs_sort(struct buffer *buffer);
int64_t proofs_unsettled(const struct spans *spans, const struct buffer *buffer, int64_t limit);
struct proof *proofs_first(const struct buffer *buffer, const struct op *op, int64_t limit);
void proofs_forget(struct spans *spans, struct process *process, struct buffer *buffer,
		   int64_t limit);
void proofs_free(struct spans *spans, struct process *process, struct buffer *buffer);
/* What is in order already is left as it is. */
void sort(struct buffer *buffer, size_t size, int (*compare)(const void *, const void *));

/* span_close.c */
int process_close(struct spans *spans, struct process *process, int at_once);
int spans_close(struct spans *spans, int stopping);
int spans_crowded(const struct spans *spans);
void spans_free(struct spans *spans);

/*
 * Whether a tenant that has so many may have one more, as in bpf/common/quota.bpf.h: one that takes
 * all it can gets half, two get a third each, and as much is left for whoever comes later.
 */
static inline int room_for(uint64_t mine, uint64_t all, uint64_t most)
{
	return all + mine < most;
}

/* Tenants choose sizes: a sum that does not fit is the largest number that does. */
static inline int64_t bytes_sum(int64_t sum, uint64_t bytes, uint32_t weight)
{
	__int128 all = sum + (__int128)bytes * weight;

	return all > INT64_MAX ? INT64_MAX : all;
}

static inline int64_t proof_end(const struct proof *proof)
{
	return proof->began_ns + proof->took_ns;
}

static inline int64_t op_end(const struct op *op)
{
	return op->began_ns + op->took_ns;
}

/* Whether a call is proven by itself: it returned when it was done. */
static inline int proves_itself(const struct proof *proof, const struct op *op)
{
	return op_end(op) == proof_end(proof) && op->began_ns == proof->began_ns;
}

static inline struct op *ops_of(const struct queue *queue, uint32_t *count)
{
	*count = queue->ops.used / sizeof(struct op) - queue->head;
	return (struct op *)queue->ops.bytes + queue->head;
}

#endif /* COTENANT_SPANS_H */
