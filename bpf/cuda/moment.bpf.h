/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of an event: made, recorded, asked about, destroyed.
 */
#ifndef COTENANT_MOMENT_BPF_H
#define COTENANT_MOMENT_BPF_H

#include "cuda/timing.bpf.h"

/* Where the record will be is certain only if it is the same before and after. */
static __always_inline void record_enter(struct thread *thread, struct frame *frame,
					 const struct call_spec *spec)
{
	struct cuda_event *event = cuda_body(&frame->own);
	struct moment *moment = moment_of(thread, event->address, 1);
	__u64 stream = stream_of(event, spec);
	struct timing *timing;

	if (!moment)
		return;
	__sync_fetch_and_add(&moment->busy, 1);
	if (!timed(thread)) {
		/* What is on its way now was not counted: the next record has a place. */
		if (!moment->untimed)
			timing_arm(thread);
		return;
	}
	timing = timing_of_process(0);
	if (!timing)
		return;
	frame->taken = 1;
	place(timing, stream, &frame->other, &frame->out_bytes);
	if (stream == STREAM_LEGACY)
		__sync_fetch_and_add(&timing->records, 1);
}

/* The operation before the event, if it is still the last of its lane. */
static __always_inline void moment_operation(struct moment *moment, const struct lane *lane)
{
	moment->operation_ns = 0;
	if (lane->number != lane->state >> 16 || lane->stream != moment->stream)
		return;
	moment->operation_ns = lane->began_ns;
	moment->operation_tid = lane->tid;
	moment->operation_context = lane->context;
	moment->cgroup_id = lane->cgroup_id;
	moment->cgroup_v1_id = lane->cgroup_v1_id;
}

static __always_inline bool_t moment_place(struct moment *moment, const struct frame *frame,
					   struct timing *timing, __u64 tenant)
{
	__u64 *rests = bpf_map_lookup_elem(&resting, &tenant);
	struct control *now = control();

	place(timing, moment->stream, &moment->own, &moment->others);
	if (moment->own != frame->other || moment->others != frame->out_bytes)
		return 0;
	if ((moment->own | moment->others) & LANE_UNDER_WAY)
		return 0;
	moment_operation(moment, lane_of_stream(timing, moment->stream));
	moment->blind = now ? now->blind : 1;
	moment->rests = rests ? *rests : 0;
	return !((moment->blind | moment->rests) & 1);
}

__noinline int record_leave(struct thread *thread, struct frame *frame,
				   const struct call_spec *spec, bool_t succeeded)
{
	struct cuda_event *event;
	struct member_key stream;
	struct moment *moment;
	struct timing *timing;

	if (!thread || !frame || !spec)
		return 0;
	event = cuda_body(&frame->own);
	timing = frame->taken ? timing_of_process(0) : NULL;
	if (timing && stream_of(event, spec) == STREAM_LEGACY)
		__sync_fetch_and_add(&timing->records, succeeded ? LANE_ONE - 1 : -1ULL);
	moment = moment_of(thread, event->address, 0);
	if (!moment)
		return 0;
	if (succeeded) {
		stream = stream_key(event->stream, spec->flags);
		/* A graph may record it from now on. */
		if (capture_of(&stream))
			moment->untimed = moment->graphed = 1;
		moment->certain = 0;
		moment->told = 0;
		moment->handle = event->stream;
		moment->stream = stream_of(event, spec);
		moment->context = thread->context;
		moment->tid = (__u32)bpf_get_current_pid_tgid();
		if (timing && !moment->untimed && moment->busy == 1)
			moment->certain = moment_place(moment, frame, timing,
						       thread->whose.tenant);
		moment->began_ns = frame->began_ns;
		moment->ended_ns = bpf_ktime_get_ns();
	}
	if (moment->busy)
		__sync_fetch_and_add(&moment->busy, -1);
	return 0;
}

/* Default streams of two contexts have one name: what is between must be of the same. */
static __always_inline bool_t same_context(const struct moment *start, const struct moment *end)
{
	if (end->stream != STREAM_LEGACY && (__u32)end->stream != 2)
		return 1;
	if (start->context != end->context || end->operation_context != end->context)
		return 0;
	/* Not known, then: that of the thread since before it was seen. */
	return end->context || (start->tid == end->tid && end->operation_tid == end->tid);
}

static __always_inline bool_t times_one(const struct moment *start, const struct moment *end,
					__u64 asked_ns)
{
	return start->certain && end->certain && !start->busy && !end->busy &&
	       start->ended_ns <= asked_ns && end->ended_ns <= asked_ns &&
	       start->stream == end->stream && start->blind == end->blind &&
	       start->rests == end->rests &&
	       end->own - start->own == LANE_ONE && end->others == start->others &&
	       end->operation_ns >= start->ended_ns && same_context(start, end);
}

/* The application learned how long something took: if that is one operation, so do we. */
__noinline int elapsed_leave(struct thread *thread, struct frame *frame)
{
	struct moment *start, *end;
	struct fact *fact;
	__u32 ms = 0;

	if (!thread || !frame)
		return 0;
	start = moment_of(thread, frame->other, 0);
	end = moment_of(thread, cuda_body(&frame->own)->address, 0);
	if (!start || !end || end->told || !times_one(start, end, frame->began_ns))
		return 0;
	if (bpf_probe_read_user(&ms, sizeof(ms), (void *)frame->out)) {
		count(COUNTER_UNREADABLE);
		return 0;
	}
	if (!fact_admitted(facts, thread->whose.tenant, PURSE_FACTS, QUOTA_facts, sizeof(*fact)))
		return 0;
	fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);
	if (!fact) {
		count(COUNTER_FACT_LOST);
		return 0;
	}
	end->told = 1;
	__builtin_memset(fact, 0, sizeof(*fact));
	fact->timestamp_ns = bpf_ktime_get_ns();
	fact->process_start_ns = thread->process_start_ns;
	fact->cgroup_id = end->cgroup_id;
	fact->cgroup_v1_id = end->cgroup_v1_id;
	fact->pid = bpf_get_current_pid_tgid() >> 32;
	fact->tid = end->operation_tid;
	fact->kind = FACT_ELAPSED;
	fact->function = frame->function;
	fact->handle = end->operation_ns;
	fact->other = ms;
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Before the driver can give the handle to another thread. */
static __always_inline void moment_drop(const struct thread *thread, __u64 event)
{
	struct moment_key key = moment_key(thread, event);
	struct moment *moment = bpf_map_lookup_elem(&moments, &key);

	if (moment)
		moment_delete(&key, moment->tenant);
}

__noinline int moment_enter(struct thread *thread, struct frame *frame,
				   const struct call_spec *spec)
{
	if (!thread || !frame || !spec)
		return 0;
	if (spec->step == STEP_EVENT_RECORD)
		record_enter(thread, frame, spec);
	else if (spec->step == STEP_EVENT_DESTROY)
		moment_drop(thread, cuda_body(&frame->own)->address);
	return 0;
}

/* What a successful call does to an event. */
__noinline int moment_leave(struct thread *thread, struct frame *frame,
				   const struct call_spec *spec)
{
	struct moment *moment;

	if (!thread || !frame || !spec)
		return 0;
	switch (spec->step) {
	case STEP_EVENT_CREATE:
		moment_drop(thread, cuda_body(&frame->own)->address);
		moment = moment_of(thread, cuda_body(&frame->own)->address, 1);
		if (moment && frame->other & EVENT_DISABLE_TIMING)
			moment->untimed = 1;
		else
			timing_arm(thread);
		break;
	case STEP_EVENT_ELAPSED:
		elapsed_leave(thread, frame);
		break;
	case STEP_EVENT_GRAPH:
		/* A node of a kernel. */
		if (spec->guard && !frame->guarded)
			break;
		moment = moment_of(thread, frame->other, 1);
		if (moment)
			moment->untimed = moment->graphed = 1;
		break;
	}
	return 0;
}

#endif /* COTENANT_MOMENT_BPF_H */
