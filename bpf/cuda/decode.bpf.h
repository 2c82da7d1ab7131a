/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The arguments of a CUDA call into its event, as the function's spec says.
 */
#ifndef COTENANT_DECODE_BPF_H
#define COTENANT_DECODE_BPF_H

#include "common/thread.bpf.h"

#define BATCH_MAX 256
#define MEMORY_TYPE_HOST 1
#define MEMORY_TYPE_ARRAY 3

_Static_assert(sizeof(struct cuda_event) - sizeof(struct event_head) == sizeof(struct body),
	       "a waiting row holds a cuda event");

/* A body seen as the event whose head is still to come. */
static __always_inline struct cuda_event *cuda_body(struct body *body)
{
	return (void *)body - sizeof(struct event_head);
}

static __always_inline void decode_shape(struct cuda_event *event, const struct thread *thread,
					 const struct call_spec *spec)
{
	const __u64 *args = thread->args;

	switch (spec->shape) {
	case SHAPE_WORDS:
		if (args[0] & MISSING_STACK)
			return;
		event->grid_x = args[2];
		event->grid_y = args[3];
		event->grid_z = args[4];
		event->block_x = args[5];
		event->block_y = args[6];
		event->block_z = args[7];
		event->shared_bytes = args[8];
		break;
	case SHAPE_PACKED:
		if (args[0] & MISSING_STACK)
			return;
		event->grid_x = args[2];
		event->grid_y = args[2] >> 32;
		event->grid_z = args[3];
		event->block_x = args[4];
		event->block_y = args[4] >> 32;
		event->block_z = args[5];
		event->shared_bytes = args[7];
		break;
	case SHAPE_STRUCT:
		if (args[0] & MISSING_STRUCT)
			return;
		event->grid_x = args[13];
		event->grid_y = args[13] >> 32;
		event->grid_z = args[14];
		event->block_x = args[14] >> 32;
		event->block_y = args[15];
		event->block_z = args[15] >> 32;
		event->shared_bytes = args[16];
		break;
	default:
		return;
	}
	event->known |= 1 << CUDA_KNOWN_SHAPE;
}

static __always_inline void set_bytes(struct cuda_event *event, __u64 bytes)
{
	if (!is_size(bytes))
		return;
	event->bytes = bytes;
	event->known |= 1 << CUDA_KNOWN_BYTES;
}

/* A batch gives an array of sizes; one that is longer than we read has an unknown sum. */
static __noinline void decode_batch(struct cuda_event *event, __u64 sizes, __u64 entries)
{
	__u64 bytes = 0;

	if (!event || entries > BATCH_MAX)
		return;
	for (int i = 0; i < BATCH_MAX; i++) {
		__u64 size = 0;

		if (i >= entries)
			break;
		if (bpf_probe_read_user(&size, sizeof(size), (void *)(sizes + 8 * i))) {
			count(COUNTER_UNREADABLE);
			return;
		}
		bytes += size;
	}
	set_bytes(event, bytes);
}

static __always_inline void decode_bytes(struct cuda_event *event, const struct thread *thread,
					 const struct call_spec *spec)
{
	__u64 bytes;

	if (!slot_known(thread, spec->bytes[0]))
		return;
	bytes = slot(thread, spec->bytes[0]) << (spec->bytes_shift & 7);
	if (spec->flags & CALL_BATCH) {
		decode_batch(event, bytes, slot(thread, spec->bytes[1]));
		return;
	}
	if (spec->bytes[1]) {
		if (!slot_known(thread, spec->bytes[1]))
			return;
		bytes *= slot(thread, spec->bytes[1]);
	}
	if (spec->bytes[2])
		bytes *= slot(thread, spec->bytes[2]);
	set_bytes(event, bytes);
}

/* Which way a copy goes, from the types of memory that its struct names. */
static __always_inline __u32 direction_of_types(const struct thread *thread,
						const struct call_spec *spec)
{
	__u64 copy = slot(thread, spec->in & 7);
	__u32 source = 0, target = 0;

	if (bpf_probe_read_user(&source, 4, (void *)(copy + spec->source_type)) ||
	    bpf_probe_read_user(&target, 4, (void *)(copy + spec->target_type)))
		return ~0;
	/* Unified memory may be anywhere. */
	if (source < MEMORY_TYPE_HOST || source > MEMORY_TYPE_ARRAY ||
	    target < MEMORY_TYPE_HOST || target > MEMORY_TYPE_ARRAY)
		return ~0;
	return (source != MEMORY_TYPE_HOST) << 1 | (target != MEMORY_TYPE_HOST);
}

static __always_inline void decode_direction(struct cuda_event *event, const struct thread *thread,
					     const struct call_spec *spec)
{
	__u32 direction;

	if (spec->source_type) {
		direction = direction_of_types(thread, spec);
	} else if (!spec->direction) {
		return;
	} else if (!(spec->direction & DIRECTION_SLOT)) {
		direction = spec->direction - DIRECTION_CONSTANT;
	} else {
		if (!slot_known(thread, spec->direction & (DIRECTION_SLOT - 1)))
			return;
		direction = slot(thread, spec->direction & (DIRECTION_SLOT - 1));
	}
	if (direction > CUDA_DIRECTION_DtoD)
		return;
	event->direction = direction;
	event->known |= 1 << CUDA_KNOWN_DIRECTION;
}

static __always_inline void decode(struct frame *frame, const struct thread *thread,
				   const struct call_spec *spec)
{
	struct cuda_event *event = cuda_body(&frame->own);

	__builtin_memset(&frame->own, 0, sizeof(frame->own));
	event->op = spec->op;
	event->api = frame->function;
	event->function = frame->function;
	event->weight = 1;
	if (slot_known(thread, spec->handle)) {
		__u64 handle = slot(thread, spec->handle);

		if (spec->flags & CALL_HANDLE_STUB)
			event->stub = handle;
		else
			event->handle = handle;
		event->known |= 1 << CUDA_KNOWN_HANDLE;
	}
	if (slot_known(thread, spec->stream)) {
		event->stream = slot(thread, spec->stream);
		event->known |= 1 << CUDA_KNOWN_STREAM;
	}
	if (spec->address) {
		event->address = slot(thread, spec->address);
		event->known |= 1 << CUDA_KNOWN_ADDRESS;
	}
	decode_shape(event, thread, spec);
	decode_bytes(event, thread, spec);
	decode_direction(event, thread, spec);
	frame->out = spec->out ? slot(thread, spec->out) : 0;
	frame->other = 0;
	if (spec->fact | spec->step) {
		frame->other = slot(thread, spec->other);
		if (!frame->other)
			frame->other = slot(thread, spec->alternate);
		frame->out_bytes = spec->out_bytes ? slot(thread, spec->out_bytes) : 0;
		frame->guarded = spec->guard && (__u32)slot(thread, spec->guard);
	}
}

#endif /* COTENANT_DECODE_BPF_H */
