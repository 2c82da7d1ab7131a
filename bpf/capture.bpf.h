/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Work that is captured into a graph does not run, and is no row.
 *
 * A capture begins on a stream and spreads: an event recorded on a captured stream carries it to
 * the streams that wait for the event. It ends for all of them at once.
 */
#ifndef COTENANT_CAPTURE_BPF_H
#define COTENANT_CAPTURE_BPF_H

#include "decode.bpf.h"

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

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u32);
} captures SEC(".maps");

/* While nobody captures, a launch costs one look at this. */
static __u64 captures_open;

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

	if (!captures_open)
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

static __always_inline __u64 capture_begin(const struct member_key *stream)
{
	__u64 number = bpf_ktime_get_ns();
	__u32 one = 1;

	if (bpf_map_update_elem(&captures, &number, &one, BPF_ANY) ||
	    bpf_map_update_elem(&members, stream, &number, BPF_ANY))
		return 0;
	__sync_fetch_and_add(&captures_open, 1);
	return number;
}

static __always_inline __u64 capture_end(const struct member_key *stream)
{
	__u64 number = capture_of(stream);

	if (!number)
		return 0;
	bpf_map_delete_elem(&captures, &number);
	bpf_map_delete_elem(&members, stream);
	__sync_fetch_and_add(&captures_open, -1);
	return number;
}

/* A record makes the event part of the stream's capture, a wait the stream part of the event's. */
static __always_inline void capture_spread(const struct member_key *from,
					   const struct member_key *to)
{
	__u64 number = capture_of(from);

	if (number)
		bpf_map_update_elem(&members, to, &number, BPF_ANY);
}

#endif /* COTENANT_CAPTURE_BPF_H */
