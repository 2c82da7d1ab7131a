// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * NCCL calls, as seen from the calling thread.
 *
 *   enter  ->  a frame; the thread is now inside this operation  ->  leave  ->  a row
 *
 * The kernel that NCCL launches on this thread meanwhile carries the operation's name, so that
 * a collective in nccl_events and its kernel in cuda_events can be told to belong together. In a
 * group the launch happens when the outermost group ends.
 */
#include "common/unreturned.bpf.h"
#include "common/session.bpf.h"
#include "nccl/communicator.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(nccl_event);
VALUES(nccl_op);
VALUES(nccl_datatype);
VALUES(nccl_reduce_op);

#define NCCL_IN_PROGRESS 7

/* A body seen as the event whose head is still to come. */
static __always_inline struct nccl_event *nccl_body(struct body *body)
{
	return (void *)body - sizeof(struct event_head);
}

/* log2 of an element's size, by ncclDataType_t; 0 for what we do not know. */
static __always_inline bool_t element_shift(__u64 datatype, __u32 *shift)
{
	switch (datatype) {
	case NCCL_DATATYPE_int8:
	case NCCL_DATATYPE_uint8:
	case NCCL_DATATYPE_float8e4m3:
	case NCCL_DATATYPE_float8e5m2:
		*shift = 0;
		return 1;
	case NCCL_DATATYPE_float16:
	case NCCL_DATATYPE_bfloat16:
		*shift = 1;
		return 1;
	case NCCL_DATATYPE_int32:
	case NCCL_DATATYPE_uint32:
	case NCCL_DATATYPE_float32:
		*shift = 2;
		return 1;
	case NCCL_DATATYPE_int64:
	case NCCL_DATATYPE_uint64:
	case NCCL_DATATYPE_float64:
		*shift = 3;
		return 1;
	}
	return 0;
}

static __always_inline void decode_data(struct nccl_event *event, const struct thread *thread,
					const struct call_spec *spec)
{
	__u64 datatype = (__u32)slot(thread, spec->datatype);
	__u64 elements = slot(thread, spec->bytes[0]);
	__u32 shift = 0;

	if (!spec->datatype || !element_shift(datatype, &shift))
		return;
	event->datatype = datatype;
	event->known |= 1 << NCCL_KNOWN_DATATYPE;
	if (!spec->bytes[0] || !is_size(elements) || !is_size(elements << shift))
		return;
	event->bytes = elements << shift;
	event->known |= 1 << NCCL_KNOWN_BYTES;
}

static __always_inline void decode_ranks(struct nccl_event *event, const struct thread *thread,
					 const struct call_spec *spec)
{
	__u64 reduce_op = (__u32)slot(thread, spec->reduce_op);

	if (spec->reduce_op && reduce_op <= NCCL_REDUCE_OP_avg) {
		event->reduce_op = reduce_op;
		event->known |= 1 << NCCL_KNOWN_REDUCE_OP;
	}
	if (spec->root) {
		event->root = slot(thread, spec->root);
		event->known |= 1 << NCCL_KNOWN_ROOT;
	}
	if (spec->peer) {
		event->peer = slot(thread, spec->peer);
		event->known |= 1 << NCCL_KNOWN_PEER;
	}
	if (spec->communicator) {
		event->communicator = slot(thread, spec->communicator);
		event->known |= 1 << NCCL_KNOWN_COMM;
	}
	if (slot_known(thread, spec->stream)) {
		event->stream = slot(thread, spec->stream);
		event->known |= 1 << NCCL_KNOWN_STREAM;
	}
}

static __always_inline void decode(struct frame *frame, const struct thread *thread,
				   const struct call_spec *spec)
{
	struct nccl_event *event = nccl_body(&frame->own);

	__builtin_memset(&frame->own, 0, sizeof(frame->own));
	event->op = spec->op;
	event->api = frame->function;
	event->function = frame->function;
	event->weight = 1;
	decode_data(event, thread, spec);
	decode_ranks(event, thread, spec);
	frame->out = spec->out ? slot(thread, spec->out) : 0;
}

/* Groups nest; the calls between the outermost start and end share one number. */
static __always_inline void group_enter(struct thread *thread, __u8 op)
{
	if (op != NCCL_OP_GroupStart)
		return;
	if (thread->group_depth++ == 0) {
		thread->group_id = bpf_ktime_get_ns();
		thread->nccl_op = 0;
	}
}

/* The operation whose kernel a launch on this thread is now. */
static __always_inline void operation_enter(struct thread *thread, const struct call_spec *spec)
{
	if (spec->op == NCCL_OP_GroupEnd || !(spec->flags & CALL_OPERATION))
		return;
	/* One kernel may serve several operations of a group; then it is the group's. */
	if (thread->group_depth && thread->nccl_op && thread->nccl_op != spec->op)
		thread->nccl_op = NCCL_OP_GroupEnd;
	else
		thread->nccl_op = spec->op;
}

static __always_inline void emit(struct thread *thread, struct task_struct *task,
				 struct total *total, struct row *row)
{
	struct nccl_event *event;

	event = row_begin(total, thread->whose.tenant, sizeof(*event),
			  nccl_body(&row->body)->bytes);
	if (!event)
		return;
	head_fill(&event->head, thread, task, EVENT_NCCL, sizeof(*event), row->began_ns);
	__builtin_memcpy((void *)event + sizeof(struct event_head), &row->body,
			 sizeof(*event) - sizeof(struct event_head));
	event->weight = row_weight(total, row->began_ns, event->bytes);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* The innermost call, if the thread has left it; whether it had. */
__noinline int abandon_one(struct thread *thread, __u64 sp)
{
	struct task_struct *task = current_task();
	const struct call_spec *spec;
	struct total *total;
	struct frame *frame;
	__u32 function;

	frame = thread ? pop_left(&thread->nccl, sp) : NULL;
	if (!frame)
		return 0;
	refresh_tenant(thread, task);
	function = frame->function;
	spec = bpf_map_lookup_elem(&functions, &function);
	total = count_unreturned(thread, function);
	/* A call within the same library is the call around it. */
	if (!spec || thread->nccl.depth || !(spec->flags & (CALL_ROW | CALL_OPERATION)))
		return 1;
	frame->row.body = frame->own;
	frame->row.began_ns = frame->began_ns;
	emit(thread, task, total, &frame->row);
	return 1;
}

static __always_inline int enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 function = function_of(cookie);
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	struct task_struct *task;
	struct thread *thread;
	struct frame *frame;

	if (!spec || has_ended(attachment_of(cookie)) || tenant_excluded())
		return SESSION_SKIP;
	task = current_task();
	thread = thread_of(task);
	if (!thread)
		return SESSION_SKIP;
	pop_jumped(&thread->nccl, ctx->sp, function);
	frame = frame_below(&thread->nccl);
	if (frame && !seen_twice(frame, ctx->sp, cookie) && is_left(frame, ctx->sp))
		abandon_all(abandon_one, thread, ctx->sp);
	frame = frame_push(thread, &thread->nccl, ctx->sp, cookie);
	if (!frame)
		return SESSION_SKIP;
	read_arguments(ctx, thread, spec);
	decode(frame, thread, spec);
	if (spec->fact)
		keep_communicator(ctx, thread, frame, spec);
	group_enter(thread, spec->op);
	operation_enter(thread, spec);
	frame->began_ns = bpf_ktime_get_ns();
	return SESSION_RETURN;
}

/* Leaves a group; true while an outer one is still open, whose end is the row. */
static __always_inline bool_t group_leave(struct thread *thread)
{
	if (thread->group_depth > 0)
		thread->group_depth--;
	if (thread->group_depth > 0)
		return 1;
	thread->nccl_op = 0;
	return 0;
}

/* A call within the same library is the call around it, with the arguments of the inner one. */
static __always_inline void pass_on(struct thread *thread, struct task_struct *task,
				    struct total *total, struct frame *frame)
{
	struct frame *outer = frame_below(&thread->nccl);
	struct nccl_event *own = nccl_body(&frame->own);

	if (!frame->waiting) {
		frame->row.body = frame->own;
	} else {
		struct nccl_event *row = nccl_body(&frame->row.body);

		row->op = own->op;
		row->api = frame->function;
		row->duration_ns = own->duration_ns;
		row->result = own->result;
	}
	frame->row.began_ns = frame->began_ns;
	if (outer) {
		/* A call that makes communicators keeps its arguments where a row would wait. */
		if (outer->operations)
			return;
		outer->row = frame->row;
		outer->waiting = 1;
		return;
	}
	emit(thread, task, total, &frame->row);
}

/* A communicator that is made without blocking has its address at once, and is ready later. */
static __always_inline bool_t has_answer(const struct call_spec *spec, __s32 result)
{
	return result == 0 || (result == NCCL_IN_PROGRESS && spec->flags & CALL_ROW);
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u32 function = function_of(cookie);
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = current_task();
	bool_t inside_group = 0;
	struct nccl_event *event;
	struct thread *thread;
	struct frame *frame;
	struct total *total;

	thread = spec ? thread_of(task) : NULL;
	frame = thread ? frame_below(&thread->nccl) : NULL;
	if (frame && frame->sp < ctx->sp - 8)
		abandon_all(abandon_one, thread, ctx->sp - 16);
	frame = thread ? frame_pop(&thread->nccl, ctx->sp) : NULL;
	if (!frame)
		return 0;
	event = nccl_body(&frame->own);
	event->duration_ns = now - frame->began_ns;
	event->result = ctx->ax;
	event->known |= 1 << NCCL_KNOWN_RESULT | 1 << NCCL_KNOWN_DURATION;
	if (thread->group_depth > 0) {
		event->group_id = thread->group_id;
		event->known |= 1 << NCCL_KNOWN_GROUP;
	}
	if (spec->fact && has_answer(spec, ctx->ax)) {
		learn(thread, frame, spec);
		if (spec->flags & CALL_ROW &&
		    !bpf_probe_read_user(&event->communicator, 8, (void *)frame->out) &&
		    event->communicator)
			event->known |= 1 << NCCL_KNOWN_COMM;
	}
	refresh_tenant(thread, task);
	total = total_of(&thread->whose, function);
	if (total)
		total_add(total, event->duration_ns, event->bytes);
	if (spec->op == NCCL_OP_GroupEnd)
		inside_group = group_leave(thread);
	else if (thread->group_depth == 0 && thread->nccl.depth == 0)
		thread->nccl_op = 0;
	if (inside_group || !(spec->flags & (CALL_ROW | CALL_OPERATION)))
		return 0;
	pass_on(thread, task, total, frame);
	return 0;
}

PROGRAMS(nccl, enter, leave)
