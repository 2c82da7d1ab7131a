// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CUDA driver and runtime calls, as seen from the calling thread.
 *
 *   enter  ->  a frame of the thread  ->  leave  ->  totals, and a row or none
 *
 * The attach cookie is the function's number: how its arguments are read is data (call.h), so
 * that a new function is a row of the probe table, not code.
 */
#include "thread.bpf.h"
#include "session.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(cuda_event);
VALUES(cuda_op);
VALUES(cuda_direction);

#define CUDA_NOT_READY 600

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
		event->grid_x = args[2];
		event->grid_y = args[3];
		event->grid_z = args[4];
		event->block_x = args[5];
		event->block_y = args[6];
		event->block_z = args[7];
		event->shared_bytes = args[8];
		break;
	case SHAPE_PACKED:
		event->grid_x = args[2];
		event->grid_y = args[2] >> 32;
		event->grid_z = args[3];
		event->block_x = args[4];
		event->block_y = args[4] >> 32;
		event->block_z = args[5];
		event->shared_bytes = args[7];
		break;
	case SHAPE_STRUCT:
		if (args[0])
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

static __always_inline void decode_bytes(struct cuda_event *event, const struct thread *thread,
					 const struct call_spec *spec)
{
	__u64 bytes;

	if (!slot_known(thread, spec->bytes[0]))
		return;
	bytes = slot(thread, spec->bytes[0]) << (spec->bytes_shift & 7);
	if (spec->bytes[1])
		bytes *= slot(thread, spec->bytes[1]);
	if (spec->bytes[2])
		bytes *= slot(thread, spec->bytes[2]);
	/* More than any machine has: an argument that is no size. */
	if (bytes >> 56)
		return;
	event->bytes = bytes;
	event->known |= 1 << CUDA_KNOWN_BYTES;
}

static __always_inline void decode_direction(struct cuda_event *event, const struct thread *thread,
					     const struct call_spec *spec)
{
	__u64 direction;

	if (!spec->direction)
		return;
	direction = spec->direction & 128 ? slot(thread, spec->direction & 127)
					  : spec->direction - 1;
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
	if (spec->handle) {
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
}

static __always_inline int enter(struct pt_regs *ctx, __u32 function)
{
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	struct thread *thread;
	struct frame *frame;

	if (!spec || tenant_excluded(bpf_get_current_cgroup_id()))
		return SESSION_SKIP;
	thread = thread_of_current();
	if (!thread)
		return SESSION_SKIP;
	frame = frame_push(&thread->cuda, ctx->sp, function);
	if (!frame)
		return SESSION_SKIP;
	read_arguments(ctx, thread, spec);
	decode(frame, thread, spec);
	frame->began_ns = bpf_ktime_get_ns();
	return SESSION_RETURN;
}

static __always_inline void emit(struct thread *thread, struct total *total, struct row *row)
{
	struct cuda_event *event;

	if (total)
		__sync_fetch_and_add(&total->rows, 1);
	else
		count(COUNTER_ORPHAN_ROWS);
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		if (total)
			__sync_fetch_and_add(&total->lost, 1);
		else
			count(COUNTER_ORPHAN_LOST);
		return;
	}
	head_fill(&event->head, thread, EVENT_CUDA, sizeof(*event), row->began_ns);
	*(struct body *)((void *)event + sizeof(struct event_head)) = row->body;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* What only the return can tell: the result, what was written, the thread's context. */
static __always_inline void finish(struct thread *thread, struct frame *frame,
				   const struct call_spec *spec, __s32 result, __u64 duration_ns)
{
	struct cuda_event *event = cuda_body(&frame->own);

	event->result = result;
	event->duration_ns = duration_ns;
	event->known |= 1 << CUDA_KNOWN_RESULT | 1 << CUDA_KNOWN_DURATION;
	if (frame->out && result == 0) {
		__u64 written = 0;

		if (bpf_probe_read_user(&written, sizeof(written), (void *)frame->out)) {
			count(COUNTER_UNREADABLE);
		} else {
			event->address = written;
			event->known |= 1 << CUDA_KNOWN_ADDRESS;
		}
	}
	if (spec->flags & CALL_CONTEXT && result == 0)
		thread->context = event->address;
	if (thread->context) {
		event->context = thread->context;
		event->known |= 1 << CUDA_KNOWN_CONTEXT;
	}
	if (thread->nccl_op) {
		event->nccl = thread->nccl_op;
		event->known |= 1 << CUDA_KNOWN_NCCL;
	}
}

/* A query is news only when what it found unfinished before is finished now. */
static __always_inline bool_t worth_a_row(struct thread *thread, struct frame *frame,
					  const struct call_spec *spec, __s32 result)
{
	__u64 asked;

	if (!(spec->flags & CALL_READY))
		return spec->flags & (CALL_ROW | CALL_OPERATION);
	asked = cuda_body(&frame->own)->stream ?: cuda_body(&frame->own)->address;
	if (result == CUDA_NOT_READY) {
		thread->not_ready = asked;
		return 0;
	}
	if (thread->not_ready != asked)
		return 0;
	thread->not_ready = 0;
	return 1;
}

/* The call as the row: its own arguments, or those of the one operation inside it. */
static __always_inline void settle(struct frame *frame)
{
	struct cuda_event *own = cuda_body(&frame->own);
	struct cuda_event *row = cuda_body(&frame->row.body);

	if (!frame->waiting) {
		frame->row.body = frame->own;
	} else {
		row->api = frame->function;
		row->duration_ns = own->duration_ns;
		row->result = own->result;
		/* The caller's name for the kernel, where the driver's has none. */
		if (row->op == CUDA_OP_launch)
			row->stub = own->stub;
	}
	frame->row.began_ns = frame->began_ns;
	frame->waiting = 1;
}

/* Hand the frame's row to the call around it, or send it. */
static __always_inline void pass_on(struct thread *thread, struct total *total,
				    struct frame *frame)
{
	struct frame *outer = frame_below(&thread->cuda);
	__u16 api = thread->cuda.frames[0].function;

	if (!outer) {
		emit(thread, total, &frame->row);
		return;
	}
	if (outer->operations < 0xffff)
		outer->operations++;
	if (outer->operations == 1) {
		outer->row = frame->row;
		outer->waiting = 1;
		return;
	}
	if (outer->waiting) {
		outer->waiting = 0;
		cuda_body(&outer->row.body)->api = api;
		emit(thread, total, &outer->row);
	}
	cuda_body(&frame->row.body)->api = api;
	emit(thread, total, &frame->row);
}

static __always_inline int leave(struct pt_regs *ctx, __u32 function)
{
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	__u64 now = bpf_ktime_get_ns();
	struct thread *thread;
	struct frame *frame;
	struct total *total;
	__u64 duration_ns;

	thread = spec ? thread_of_current() : NULL;
	frame = thread ? frame_pop(&thread->cuda, ctx->sp) : NULL;
	if (!frame)
		return 0;
	duration_ns = now - frame->began_ns;
	finish(thread, frame, spec, ctx->ax, duration_ns);
	refresh_v1(thread);
	total = total_of(bpf_get_current_cgroup_id(), thread->v1_id, function);
	if (total)
		total_add(total, duration_ns, cuda_body(&frame->own)->bytes);

	if (frame->operations > 1) {
		struct frame *outer = frame_below(&thread->cuda);

		/* Sent already, each by itself; the call around us has several inside, too. */
		if (outer && outer->operations < 0xfff0)
			outer->operations += 2;
		return 0;
	}
	if (!frame->waiting) {
		if (!worth_a_row(thread, frame, spec, ctx->ax))
			return 0;
		/* What is no operation is a detail of the call around it. */
		if (!(spec->flags & CALL_OPERATION) && frame_below(&thread->cuda))
			return 0;
	}
	settle(frame);
	pass_on(thread, total, frame);
	return 0;
}

PROGRAMS(cuda, enter, leave)
