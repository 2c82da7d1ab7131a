/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work that is captured into a graph does not run, and is no row.
 *
 * A capture begins on a stream and spreads: an event recorded on a captured stream carries it to
 * the streams that wait for the event. It ends for all of them at once: with a graph, with an
 * error, or with its process.
 */
#ifndef COTENANT_CAPTURE_BPF_H
#define COTENANT_CAPTURE_BPF_H

#include "cuda/decode.bpf.h"

#define CUDA_CAPTURE_UNMATCHED 903
#define CUDA_CAPTURE_WRONG_THREAD 908

struct member_key {
	__u32 pid;
	__u32 event;		/* an event, else a stream */
	__u64 handle;
};

struct member {
	__u64 capture;		/* its number */
	__u64 tenant;
};

/* Streams and events that are part of a capture. Those of one that is over go with a sweep. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct member_key);
	__type(value, struct member);
} members SEC(".maps");

struct capture {
	__u64 tenant;
	__u32 pid;
	__u32 reserved;
};

/* Captures that are open, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct capture);
} captures SEC(".maps");

/* How many there are: while nobody captures, a launch costs one look at this. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} captures_open SEC(".maps");

static __always_inline bool_t anybody_captures(void)
{
	__u32 zero = 0;
	__u64 *open = bpf_map_lookup_elem(&captures_open, &zero);

	return open && *open;
}

static __always_inline bool_t process_captures(void)
{
	struct process *process;
	__u32 pid;

	if (!anybody_captures())
		return 0;
	pid = bpf_get_current_pid_tgid() >> 32;
	process = bpf_map_lookup_elem(&processes, &pid);
	return process && process->captures;
}

static __always_inline void captures_add(__u32 pid, __u64 change)
{
	__u32 zero = 0;
	__u64 *open = bpf_map_lookup_elem(&captures_open, &zero);
	struct process *process = bpf_map_lookup_elem(&processes, &pid);

	if (open)
		__sync_fetch_and_add(open, change);
	if (process)
		__sync_fetch_and_add(&process->captures, change);
}

static __always_inline struct member_key stream_key(__u64 stream, __u16 flags)
{
	__u64 pid_tid = bpf_get_current_pid_tgid();

	/* Each thread has a default stream of its own, and all are called the same. */
	if (stream == 2 || (stream == 0 && flags & CALL_PER_THREAD))
		stream = pid_tid << 32 | 2;
	return (struct member_key){ .pid = pid_tid >> 32, .handle = stream };
}

/* The open capture that a stream or event is part of; 0 for none. */
static __always_inline __u64 capture_of(const struct member_key *key)
{
	struct member *member;
	__u64 number;

	if (!process_captures())
		return 0;
	member = bpf_map_lookup_elem(&members, key);
	if (!member)
		return 0;
	number = member->capture;
	return bpf_map_lookup_elem(&captures, &number) ? number : 0;
}

static __always_inline void capture_close(__u64 number, __u32 pid)
{
	struct capture *capture = bpf_map_lookup_elem(&captures, &number);
	__u64 tenant;

	if (!capture)
		return;
	tenant = capture->tenant;
	if (bpf_map_delete_elem(&captures, &number))
		return;
	quota_give(tenant, QUOTA_captures);
	captures_add(pid, -1);
}

/* A stream or event is part of a capture; no more, if its tenant has as many as it may. */
__noinline int member_put(const struct member_key *wanted, __u64 number, __u64 tenant)
{
	struct member value = { .capture = number, .tenant = tenant };
	struct member_key key;
	struct member *known;

	if (!wanted)
		return 0;
	key = *wanted;
	known = bpf_map_lookup_elem(&members, &key);
	if (known) {
		known->capture = number;
		return 1;
	}
	if (!quota_take(tenant, QUOTA_members, 0))
		return 0;
	if (!bpf_map_update_elem(&members, &key, &value, BPF_NOEXIST))
		return 1;
	quota_give(tenant, QUOTA_members);
	quota_refused(tenant, QUOTA_members);
	return 0;
}

static __always_inline __u64 capture_begin(const struct thread *thread,
					   const struct member_key *stream)
{
	struct capture capture = { .tenant = thread->whose.tenant, .pid = stream->pid };
	__u64 number = bpf_ktime_get_ns();

	if (!process_of(capture.pid, thread->process_start_ns)) {
		quota_refused(capture.tenant, QUOTA_captures);
		return 0;
	}
	if (!quota_take(capture.tenant, QUOTA_captures, 0))
		return 0;
	if (bpf_map_update_elem(&captures, &number, &capture, BPF_NOEXIST)) {
		quota_give(capture.tenant, QUOTA_captures);
		quota_refused(capture.tenant, QUOTA_captures);
		return 0;
	}
	captures_add(capture.pid, 1);
	if (member_put(stream, number, capture.tenant))
		return number;
	capture_close(number, capture.pid);
	return 0;
}

static __always_inline __u64 capture_end(const struct member_key *stream)
{
	__u64 number = capture_of(stream);

	if (!number)
		return 0;
	capture_close(number, stream->pid);
	return number;
}

/* What ends with an error is over, too; unless it was not this stream's or thread's to end. */
static __always_inline bool_t capture_broke(const struct call_spec *spec, __s32 result)
{
	return spec->step == STEP_CAPTURE_END && result != CUDA_CAPTURE_UNMATCHED &&
	       result != CUDA_CAPTURE_WRONG_THREAD;
}

/* A record makes the event part of the stream's capture, a wait the stream part of the event's. */
static __always_inline void capture_spread(const struct thread *thread,
					   const struct member_key *from,
					   const struct member_key *to)
{
	__u64 number = capture_of(from);

	if (number)
		member_put(to, number, thread->whose.tenant);
}

/* Captures begin, spread and end; at their end `other` is the capture's number. */
static __always_inline void capture_leave(struct thread *thread, struct frame *frame,
					  const struct call_spec *spec)
{
	struct cuda_event *event = cuda_body(&frame->own);
	struct member_key stream = stream_key(event->stream, spec->flags);
	struct member_key other = { .pid = stream.pid, .event = 1, .handle = event->address };

	switch (spec->step) {
	case STEP_CAPTURE_BEGIN:
		/* One that is open here has ended unseen: there is at most one. */
		capture_end(&stream);
		frame->other = capture_begin(thread, &stream);
		break;
	case STEP_CAPTURE_END:
		frame->other = capture_end(&stream);
		break;
	case STEP_EVENT_RECORD:
		capture_spread(thread, &stream, &other);
		break;
	case STEP_EVENT_WAIT:
		capture_spread(thread, &other, &stream);
		break;
	}
}

#endif /* COTENANT_CAPTURE_BPF_H */
