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
#define CAPTURES_OF_PROCESS_MAX 256	/* nobody takes the room of others */

struct member_key {
	__u32 pid;
	__u32 event;		/* an event, else a stream */
	__u64 handle;
};

/* Streams and events that are part of a capture, by the number of the capture. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct member_key);
	__type(value, __u64);
} members SEC(".maps");

/* Captures that are open, and the process of each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} captures SEC(".maps");

/* How many there are: while nobody captures, a launch costs one look at this. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} captures_open SEC(".maps");

/* How many a process has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64);
} capturing SEC(".maps");

static __always_inline bool_t anybody_captures(void)
{
	__u32 zero = 0;
	__u64 *open = bpf_map_lookup_elem(&captures_open, &zero);

	return open && *open;
}

static __always_inline bool_t process_captures(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 *open;

	if (!anybody_captures())
		return 0;
	open = bpf_map_lookup_elem(&capturing, &pid);
	return open && *open;
}

static __always_inline void captures_add(__u32 pid, __u64 change)
{
	__u32 zero = 0;
	__u64 *open = bpf_map_lookup_elem(&captures_open, &zero);

	if (open)
		__sync_fetch_and_add(open, change);
	open = bpf_map_lookup_elem(&capturing, &pid);
	if (open)
		__sync_fetch_and_add(open, change);
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
	__u64 *number, found;

	if (!process_captures())
		return 0;
	number = bpf_map_lookup_elem(&members, key);
	if (!number)
		return 0;
	found = *number;
	if (bpf_map_lookup_elem(&captures, &found))
		return found;
	bpf_map_delete_elem(&members, key);
	return 0;
}

static __always_inline void capture_close(__u64 number, __u32 pid)
{
	if (!bpf_map_delete_elem(&captures, &number))
		captures_add(pid, -1);
}

/* Whether the process may begin one more. */
static __always_inline bool_t capture_allowed(__u32 pid)
{
	__u64 none = 0, *open = bpf_map_lookup_elem(&capturing, &pid);

	if (open)
		return *open < CAPTURES_OF_PROCESS_MAX;
	return !bpf_map_update_elem(&capturing, &pid, &none, BPF_ANY);
}

static __always_inline __u64 capture_begin(const struct member_key *stream)
{
	__u64 number = bpf_ktime_get_ns();
	__u32 pid = stream->pid;

	if (!capture_allowed(pid) || bpf_map_update_elem(&captures, &number, &pid, BPF_NOEXIST))
		return 0;
	captures_add(pid, 1);
	if (!bpf_map_update_elem(&members, stream, &number, BPF_ANY))
		return number;
	capture_close(number, pid);
	return 0;
}

static __always_inline __u64 capture_end(const struct member_key *stream)
{
	__u64 number = capture_of(stream);

	if (!number)
		return 0;
	capture_close(number, stream->pid);
	bpf_map_delete_elem(&members, stream);
	return number;
}

/* What ends with an error is over, too; unless it was not this stream's or thread's to end. */
static __always_inline bool_t capture_broke(const struct call_spec *spec, __s32 result)
{
	return spec->step == STEP_CAPTURE_END && result != CUDA_CAPTURE_UNMATCHED &&
	       result != CUDA_CAPTURE_WRONG_THREAD;
}

/* A record makes the event part of the stream's capture, a wait the stream part of the event's. */
static __always_inline void capture_spread(const struct member_key *from,
					   const struct member_key *to)
{
	__u64 number = capture_of(from);

	if (number)
		bpf_map_update_elem(&members, to, &number, BPF_ANY);
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
		frame->other = capture_begin(&stream);
		break;
	case STEP_CAPTURE_END:
		frame->other = capture_end(&stream);
		break;
	case STEP_EVENT_RECORD:
		capture_spread(&stream, &other);
		break;
	case STEP_EVENT_WAIT:
		capture_spread(&other, &stream);
		break;
	}
}

#endif /* COTENANT_CAPTURE_BPF_H */
