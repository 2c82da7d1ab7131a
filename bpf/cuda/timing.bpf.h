/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which operation the application's own pair of events timed.
 *
 *   timings   process  ->  lanes: what was queued on each stream, by number
 *   moments   event    ->  where in its lane it was last recorded, and the operation before it
 *
 * Two events time an operation if it alone was queued on their stream between them, and nothing
 * that makes the stream wait for others. A lane counts what is queued on a stream as well as the
 * calls that are doing so: a record during which anything was on its way has no certain place,
 * and is of no use. Whatever is in doubt has no time.
 *
 * The legacy default stream waits for all others and they for it: it is lane 0, what is queued
 * there counts for every stream, and for it what is queued anywhere.
 */
#ifndef COTENANT_TIMING_BPF_H
#define COTENANT_TIMING_BPF_H

#include "cuda/capture.bpf.h"

#define LANES 32		/* streams that share one are a doubt about each other, no more */
#define LANE_ONE (1ULL << 16)
#define LANE_UNDER_WAY (LANE_ONE - 1)
#define LANE_RAN (1U << 31)	/* in cuda_event.lane: the operation was queued */

#define STREAM_LEGACY 0ULL
#define STREAM_UNKNOWN (~0ULL)
#define EVENT_DISABLE_TIMING 2

/* What was queued on a stream, and the last of it that became a row. */
struct lane {
	__u64 state;		/* how much was queued << 16 | calls under way */
	__u64 number;		/* the last row's, as it was counted */
	__u64 stream;
	__u64 context;
	__u64 began_ns;		/* the row's timestamp; 0 if its time is not a device's */
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u32 tid;
	__u32 reserved;
};

struct timing {
	__u64 records;		/* records on the legacy stream, which others wait for; as a state */
	struct lane lanes[LANES];
};

/* Of processes that have events with a time, in their leader's storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct timing);
} timings SEC(".maps");

struct moment_key {
	__u64 process_start_ns;
	__u64 event;
	__u32 pid;
	__u32 reserved;
};

struct moment {
	__u32 busy;		/* calls that record it now */
	__u8 untimed;		/* made without a time, or recorded by a graph when nobody sees */
	__u8 certain;		/* its place is known */
	__u8 told;
	__u8 graphed;		/* a graph may record it, too */
	__u32 tid;
	__u32 operation_tid;
	__u64 began_ns;		/* when its record began, and returned; 0 before the first */
	__u64 ended_ns;
	__u64 handle;		/* the stream as it was named */
	__u64 stream;
	__u64 context;
	__u64 own;
	__u64 others;
	__u64 blind;
	__u64 rests;
	/* The last operation before it. */
	__u64 operation_ns;
	__u64 operation_context;
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u64 tenant;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct moment_key);
	__type(value, struct moment);
} moments SEC(".maps");

/*
 * Tenants of whose functions some have no probes for a while, as the recorder says: an odd number
 * meanwhile, another one each time.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} resting SEC(".maps");

/* How many processes were found to time anything: while none is, a launch costs a look at it. */
static __u64 armings;

static __always_inline struct timing *timing_of_process(__u64 flags)
{
	struct task_struct *leader = current_task()->group_leader;

	return leader ? bpf_task_storage_get(&timings, (void *)leader, 0, flags) : NULL;
}

__noinline int timing_notice(struct thread *thread)
{
	if (!thread)
		return 0;
	thread->armings = armings;
	thread->timed = timing_of_process(0) != NULL;
	return 0;
}

/* Whether the process times anything. */
static __always_inline bool_t timed(struct thread *thread)
{
	if (thread->armings != armings)
		timing_notice(thread);
	return thread->timed;
}

static __always_inline void timing_arm(struct thread *thread)
{
	if (timed(thread) || !timing_of_process(BPF_LOCAL_STORAGE_GET_F_CREATE))
		return;
	thread->timed = 1;
	__sync_fetch_and_add(&armings, 1);
}

/* The stream that a call is about: one name for each, and none where it is not certain. */
static __always_inline __u64 stream_of(const struct cuda_event *event,
				       const struct call_spec *spec)
{
	if (spec->flags & CALL_SEVERAL)
		return STREAM_UNKNOWN;
	if (spec->stream && !(event->known & 1 << CUDA_KNOWN_STREAM))
		return STREAM_UNKNOWN;
	if (event->stream == 1)
		return STREAM_LEGACY;
	return stream_key(event->stream, spec->flags).handle;
}

static __always_inline __u32 lane_of(__u64 stream)
{
	if (stream == STREAM_LEGACY || stream == STREAM_UNKNOWN)
		return 0;
	return (stream * 0x9e3779b97f4a7c15ULL >> 59) ?: 1;
}

/* A tag is a lane's number and one: 0 is none. */
static __always_inline struct lane *lane_at(struct timing *timing, __u32 tag)
{
	return &timing->lanes[(tag - 1) & (LANES - 1)];
}

static __always_inline struct lane *lane_of_stream(struct timing *timing, __u64 stream)
{
	/* The mask changes nothing but what the verifier can see. */
	return &timing->lanes[lane_of(stream) & (LANES - 1)];
}

/* A call is about to queue something. */
__noinline int lane_enter(struct thread *thread, struct frame *frame,
				 const struct call_spec *spec)
{
	struct timing *timing = timing_of_process(0);
	struct cuda_event *event;

	if (!timing || !thread || !frame || !spec)
		return 0;
	event = cuda_body(&frame->own);
	/* Left by a call that never returned here. */
	if (frame->lane)
		__sync_fetch_and_add(&lane_at(timing, frame->lane)->state, -1);
	frame->lane = 1 + lane_of(stream_of(event, spec));
	event->lane = frame->lane;
	__sync_fetch_and_add(&lane_at(timing, frame->lane)->state, 1);
	return 0;
}

/* It has, or has not; an operation that is a row is counted with it. */
__noinline int lane_leave(struct frame *frame, const struct call_spec *spec, __s32 result,
				 bool_t own_row)
{
	struct timing *timing;
	struct cuda_event *event;
	__u32 tag;

	if (!frame || !spec)
		return 0;
	event = cuda_body(&frame->own);
	tag = frame->lane;
	frame->lane = 0;
	if (spec->flags & CALL_OPERATION && own_row) {
		if (result == 0)
			event->lane |= LANE_RAN;
		return 0;
	}
	event->lane = 0;
	timing = timing_of_process(0);
	if (!timing)
		return 0;
	/* What is no operation makes the stream wait. */
	if (result == 0 && !(spec->flags & CALL_OPERATION))
		__sync_fetch_and_add(&lane_at(timing, tag)->state, LANE_ONE - 1);
	else
		__sync_fetch_and_add(&lane_at(timing, tag)->state, -1);
	return 0;
}

/* Something was queued that nobody looked at: where, is unknown. */
__noinline int lanes_spoil(void)
{
	struct timing *timing = timing_of_process(0);

	if (timing)
		__sync_fetch_and_add(&timing->lanes[0].state, LANE_ONE);
	return 0;
}

static __always_inline bool_t runs_on_device(__u16 op)
{
	return op == CUDA_OP_launch || op == CUDA_OP_memcpy || op == CUDA_OP_memset ||
	       op == CUDA_OP_graph_launch || op == CUDA_OP_prefetch ||
	       op == CUDA_OP_discard || op == CUDA_OP_decompress;
}

/* An operation becomes a row: from now on it is known by that. */
__noinline int lane_row(struct thread *thread, const struct body *body, __u64 began_ns)
{
	struct cuda_event *event = cuda_body((struct body *)body);
	struct timing *timing = timing_of_process(0);
	const struct call_spec *spec;
	struct lane *lane;
	__u32 function;

	if (!timing || !thread || !body)
		return 0;
	function = event->function;
	spec = bpf_map_lookup_elem(&functions, &function);
	if (!spec)
		return 0;
	lane = lane_at(timing, event->lane & ~LANE_RAN);
	if (event->lane & LANE_RAN) {
		/* Nobody trusts what is here while a call is under way. */
		lane->number = (__sync_fetch_and_add(&lane->state, LANE_ONE) >> 16) + 1;
		lane->stream = stream_of(event, spec);
		lane->context = event->context;
		lane->began_ns = runs_on_device(event->op) ? began_ns : 0;
		lane->cgroup_id = thread->whose.cgroup_id;
		lane->cgroup_v1_id = thread->whose.v1_id;
		lane->tid = (__u32)bpf_get_current_pid_tgid();
	}
	__sync_fetch_and_add(&lane->state, -1);
	return 0;
}

static __always_inline struct moment_key moment_key(const struct thread *thread, __u64 event)
{
	return (struct moment_key){
		.process_start_ns = thread->process_start_ns,
		.event = event,
		.pid = bpf_get_current_pid_tgid() >> 32,
	};
}

static __always_inline struct moment *moment_of(const struct thread *thread, __u64 event,
						bool_t make)
{
	struct moment_key key = moment_key(thread, event);
	struct moment *moment = bpf_map_lookup_elem(&moments, &key);
	/* On the stack this would not fit beside the rest. */
	static const struct moment empty;

	if (moment || !make)
		return moment;
	if (!process_of(key.pid, key.process_start_ns)) {
		quota_refused(thread->whose.tenant, QUOTA_moments);
		return NULL;
	}
	if (!quota_take(thread->whose.tenant, QUOTA_moments, 0))
		return NULL;
	if (bpf_map_update_elem(&moments, &key, &empty, BPF_NOEXIST))
		quota_give(thread->whose.tenant, QUOTA_moments);
	moment = bpf_map_lookup_elem(&moments, &key);
	if (moment)
		moment->tenant = thread->whose.tenant;
	else
		quota_refused(thread->whose.tenant, QUOTA_moments);
	return moment;
}

static __always_inline void moment_delete(const struct moment_key *key, __u64 tenant)
{
	if (!bpf_map_delete_elem(&moments, key))
		quota_give(tenant, QUOTA_moments);
}

/* A place in a stream: what was queued there, and what was that it waits for. */
static __always_inline void place(struct timing *timing, __u64 stream, __u64 *own, __u64 *others)
{
	__u64 sum = 0;

	if (stream != STREAM_LEGACY) {
		*own = lane_of_stream(timing, stream)->state;
		*others = timing->lanes[0].state + timing->records;
		return;
	}
	for (int i = 0; i < LANES; i++)
		sum += timing->lanes[i].state;
	*own = sum;
	*others = 0;
}

#endif /* COTENANT_TIMING_BPF_H */
