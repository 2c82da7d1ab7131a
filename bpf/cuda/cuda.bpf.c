// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * CUDA driver and runtime calls, as seen from the calling thread.
 *
 *   enter  ->  a frame of the thread  ->  leave  ->  totals, and a row or none
 *
 * The attach cookie is the function's number: how its arguments are read is data (common/call.h), so
 * that a new function is a row of the probe table, not code.
 */
#include "cuda/context.bpf.h"
#include "cuda/decode.bpf.h"
#include "cuda/memory.bpf.h"
#include "cuda/rows.bpf.h"
#include "cuda/wait.bpf.h"
#include "common/session.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(cuda_event);
VALUES(cuda_op);
VALUES(cuda_direction);
VALUES(call_step);
VALUES(memory_kind);

#define CUDA_NOT_READY 600

/* Rows for calls that are no GPU operation, too: streams, events, contexts, modules, pools. */
const volatile bool_t every_call = 0;

/* Calls that leave nothing behind but their row can go without a return probe. */
static __always_inline bool_t countable(const struct thread *thread, const struct call_spec *spec)
{
	return !thread->cuda.depth && !(spec->step | spec->fact | spec->out) &&
	       !(spec->flags & CALL_AT_ENTRY) && !process_captures();
}

/* Whether a call of the driver is inside one of the runtime that was only counted. */
static __always_inline bool_t inside_counted(const struct thread *thread,
					     const struct call_spec *spec, __u64 sp)
{
	return sp < thread->counted_sp && !(spec->flags & CALL_CALLER);
}

/* Whether a call that is only counted would have been a row, which its bytes are of. */
static __always_inline bool_t lacks_row(struct thread *thread, const struct call_spec *spec,
					__u64 sp)
{
	if (!(spec->flags & CALL_OPERATION || (every_call && spec->flags & CALL_ROW)))
		return 0;
	/* Of a call of the runtime and the driver's inside, the outer one would have been. */
	if (inside_counted(thread, spec, sp)) {
		if (spec->flags & CALL_OPERATION)
			thread->counted_sp = 0;
		return 0;
	}
	thread->counted_sp = spec->flags & CALL_CALLER && thread->nested ? sp : 0;
	return 1;
}

/* The thread is over its budget: the call and its bytes are counted, nothing else is read. */
static __noinline int count_only(struct pt_regs *ctx, struct thread *thread,
				 const struct call_spec *spec, __u32 function)
{
	struct total *total;
	__u64 bytes = 0;

	refresh_tenant(thread, current_task());
	if (spec->bytes[0]) {
		struct cuda_event *event = cuda_body(&thread->cuda.frames[0].own);

		read_arguments(ctx, thread, spec);
		event->bytes = 0;
		decode_bytes(event, thread, spec);
		bytes = event->bytes;
	}
	total = total_of(&thread->whose, function);
	if (total) {
		__sync_fetch_and_add(&total->count, 1);
		__sync_fetch_and_add(&total->unmeasured, 1);
		if (bytes)
			__sync_fetch_and_add(&total->bytes, bytes);
	}
	if (lacks_row(thread, spec, ctx->sp)) {
		row_seen(total);
		shed(total, thread->whose.tenant, bytes);
	}
	return 0;
}

/*
 * Whether a call is to be recorded. A thread's first call of the runtime always is: it shows
 * whether the driver's call inside is seen, too.
 */
static __always_inline bool_t is_recorded(struct thread *thread, const struct call_spec *spec,
					  __u64 sp)
{
	if (thread->counted_sp) {
		if (inside_counted(thread, spec, sp) && countable(thread, spec))
			return 0;
		if (!inside_counted(thread, spec, sp))
			thread->counted_sp = 0;
	}
	if (budget_allows(&thread->budget))
		return 1;
	if (countable(thread, spec) && (thread->runtime_known || !(spec->flags & CALL_CALLER)))
		return 0;
	thread->budget.saved--;
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
	if (!is_recorded(thread, spec, ctx->sp)) {
		count_only(ctx, thread, spec, function);
		overlook(thread, spec);
		return SESSION_SKIP;
	}
	pop_jumped(&thread->cuda, ctx->sp, function);
	frame = frame_below(&thread->cuda);
	if (frame && !seen_twice(frame, ctx->sp, cookie) && is_left(frame, ctx->sp))
		abandon_all(abandon_one, thread, ctx->sp);
	frame = frame_push(thread, &thread->cuda, ctx->sp, cookie);
	if (!frame) {
		overlook(thread, spec);
		return SESSION_SKIP;
	}
	read_arguments(ctx, thread, spec);
	decode(frame, thread, spec);
	if (spec->step) {
		memory_enter(thread, frame, spec);
		moment_enter(thread, frame, spec);
	}
	if (spec->flags & CALL_QUEUES && timed(thread))
		lane_enter(thread, frame, spec);
	frame->began_ns = bpf_ktime_get_ns();
	return SESSION_RETURN;
}

__noinline int tell(struct thread *thread, struct frame *frame, __u32 kind)
{
	__u64 pid_tid = bpf_get_current_pid_tgid();
	struct cuda_event *event;
	struct fact *fact;

	if (!thread || !frame)
		return 0;
	if (!fact_admitted(facts, thread->whose.tenant, PURSE_FACTS, QUOTA_facts, sizeof(*fact)))
		return 0;
	fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);
	if (!fact) {
		count(COUNTER_FACT_LOST);
		return 0;
	}
	event = cuda_body(&frame->own);
	__builtin_memset(fact, 0, sizeof(*fact));
	fact->timestamp_ns = bpf_ktime_get_ns();
	fact->process_start_ns = thread->process_start_ns;
	fact->cgroup_id = thread->whose.cgroup_id;
	fact->cgroup_v1_id = thread->whose.v1_id;
	fact->pid = pid_tid >> 32;
	fact->tid = (__u32)pid_tid;
	fact->kind = kind;
	fact->function = frame->function;
	fact->handle = event->handle ?: event->stub;
	fact->other = frame->other;
	fact->address = event->address;
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Whether the operation went into a graph instead of running. */
static __always_inline bool_t captured(struct thread *thread, struct frame *frame,
				       const struct call_spec *spec)
{
	struct cuda_event *event = cuda_body(&frame->own);
	struct member_key stream;
	__u64 number;

	if (!process_captures() || !(spec->flags & CALL_OPERATION) ||
	    !(event->known & 1 << CUDA_KNOWN_STREAM))
		return 0;
	stream = stream_key(event->stream, spec->flags);
	number = capture_of(&stream);
	if (!number)
		return 0;
	if (event->op == CUDA_OP_launch || event->op == CUDA_OP_graph_launch) {
		frame->other = number;
		tell(thread, frame, FACT_GRAPH);
	}
	return 1;
}

static __always_inline void read_out(struct frame *frame)
{
	struct cuda_event *event = cuda_body(&frame->own);
	__u64 written = 0;

	if (bpf_probe_read_user(&written, sizeof(written), (void *)frame->out)) {
		count(COUNTER_UNREADABLE);
		return;
	}
	event->address = written;
	event->known |= 1 << CUDA_KNOWN_ADDRESS;
}

/* What only the return can tell: the result, what was written, the thread's context. */
static __always_inline void finish(struct thread *thread, struct frame *frame,
				   const struct call_spec *spec, __s32 result, __u64 duration_ns)
{
	struct cuda_event *event = cuda_body(&frame->own);

	event->result = result;
	event->duration_ns = duration_ns;
	event->known |= 1 << CUDA_KNOWN_RESULT | 1 << CUDA_KNOWN_DURATION;
	if (thread->context) {
		event->context = thread->context;
		event->known |= 1 << CUDA_KNOWN_CONTEXT;
	}
	/* Between the calls of a group, a launch is the application's own. */
	if (thread->nccl_op && thread->nccl.depth) {
		event->nccl = thread->nccl_op;
		event->known |= 1 << CUDA_KNOWN_NCCL;
	}
}

/* The call's own columns done, what it changes; only calls that change anything come here. */
__noinline int take_effect(struct thread *thread, struct frame *frame,
				  const struct call_spec *spec, __s32 result)
{
	struct cuda_event *event;
	__u64 pitch = 0;

	if (!thread || !frame || !spec)
		return 0;
	event = cuda_body(&frame->own);
	if (frame->out && result == 0 && spec->step != STEP_EVENT_ELAPSED)
		read_out(frame);
	if (spec->out_bytes && result == 0) {
		event->known &= ~(1 << CUDA_KNOWN_BYTES);
		if (!bpf_probe_read_user(&pitch, sizeof(pitch), (void *)frame->out_bytes))
			set_bytes(event, event->bytes * pitch);
	}
	memory_leave(thread, frame, spec, result == 0);
	if (spec->step == STEP_EVENT_RECORD)
		record_leave(thread, frame, spec, result == 0);
	if (result != 0 && !capture_broke(spec, result))
		return 0;
	if (spec->step >= STEP_CAPTURE_BEGIN && spec->step <= STEP_EVENT_WAIT)
		capture_leave(thread, frame, spec);
	else if (spec->step >= STEP_EVENT_CREATE)
		moment_leave(thread, frame, spec);
	else if (spec->step >= STEP_CONTEXT_SET)
		context_leave(thread, frame, spec);
	if (spec->fact && !frame->guarded)
		tell(thread, frame, spec->fact);
	return 0;
}

/* A query is news only when what it found unfinished before is finished now. */
static __always_inline bool_t worth_a_row(struct thread *thread, struct frame *frame,
					  const struct call_spec *spec, __s32 result)
{
	__u64 asked;

	if (!(spec->flags & CALL_READY))
		return spec->flags & CALL_OPERATION || (every_call && spec->flags & CALL_ROW);
	/* The default stream is 0, as is nothing. */
	asked = 1 + (cuda_body(&frame->own)->stream ?: cuda_body(&frame->own)->address);
	if (result == CUDA_NOT_READY) {
		thread->not_ready = asked;
		thread->not_ready_ns = frame->began_ns;
		return 0;
	}
	if (thread->not_ready != asked)
		return 0;
	thread->not_ready = 0;
	return 1;
}

/* The call as the row: its own arguments, or those of the one operation inside it. */
static __always_inline struct body *settle(struct frame *frame)
{
	struct cuda_event *own = cuda_body(&frame->own);
	struct cuda_event *row = cuda_body(&frame->row.body);

	if (!frame->waiting)
		return &frame->own;
	row->api = frame->function;
	row->duration_ns = own->duration_ns;
	row->result = own->result;
	/* The caller's name for the kernel, where the driver's has none. */
	if (row->op == CUDA_OP_launch)
		row->stub = own->stub;
	/* With unified addresses only the caller says which way a copy goes. */
	if (own->known & ~row->known & 1 << CUDA_KNOWN_DIRECTION && row->op == own->op) {
		row->direction = own->direction;
		row->known |= 1 << CUDA_KNOWN_DIRECTION;
	}
	return &frame->row.body;
}

/* A row of a call that has several inside, each a row, and of the one before if that still waits. */
static __noinline int send_several(struct thread *thread, struct frame *outer, struct body *body,
				   __u64 began_ns)
{
	struct task_struct *task = current_task();
	__u16 api = thread->cuda.frames[0].function;
	struct total *total = total_of(&thread->whose, api);

	if (outer->waiting) {
		outer->waiting = 0;
		cuda_body(&outer->row.body)->api = api;
		emit(thread, task, total, outer->row.began_ns, &outer->row.body);
	}
	cuda_body(body)->api = api;
	emit(thread, task, total, began_ns, body);
	return 0;
}

/* Hand the row to the call around it, or send it. */
static __always_inline void pass_on(struct thread *thread, struct task_struct *task,
				    struct total *total, __u64 began_ns, struct body *body)
{
	struct frame *outer = frame_below(&thread->cuda);

	if (!outer) {
		emit(thread, task, total, began_ns, body);
		return;
	}
	if (outer->operations < 0xffff)
		outer->operations++;
	if (outer->operations == 1) {
		thread->nested = 1;
		outer->row.began_ns = began_ns;
		outer->row.body = *body;
		outer->waiting = 1;
		return;
	}
	send_several(thread, outer, body, began_ns);
}

/* Whether the frame is a row of its own, or one with what happened inside it. */
static __always_inline bool_t is_row(struct thread *thread, struct frame *frame,
				     const struct call_spec *spec, __s32 result)
{
	struct frame *outer = frame_below(&thread->cuda);

	if (frame->operations > 1) {
		/* Sent already, each by itself; the call around us has several inside, too. */
		if (outer && outer->operations < 0xfff0)
			outer->operations += 2;
		return 0;
	}
	if (frame->waiting)
		return 1;
	if (frame->quiet || captured(thread, frame, spec)) {
		if (outer)
			outer->quiet = 1;
		return 0;
	}
	/* What is no operation is a detail of the call around it. */
	if (outer && !(spec->flags & CALL_OPERATION))
		return 0;
	return worth_a_row(thread, frame, spec, result);
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u32 function = function_of(cookie);
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = current_task();
	struct thread *thread;
	struct frame *frame;
	struct total *total;
	__u64 duration_ns;
	struct body *row;

	thread = spec ? thread_of(task) : NULL;
	frame = thread ? frame_below(&thread->cuda) : NULL;
	if (frame && frame->sp < ctx->sp - 8)
		abandon_all(abandon_one, thread, ctx->sp - 16);
	frame = thread ? frame_pop(&thread->cuda, ctx->sp) : NULL;
	if (!frame)
		return 0;
	duration_ns = now - frame->began_ns;
	refresh_tenant(thread, task);
	if (spec->step | spec->fact | spec->out)
		take_effect(thread, frame, spec, ctx->ax);
	finish(thread, frame, spec, ctx->ax, duration_ns);
	total = total_of(&thread->whose, function);
	if (total)
		total_add(total, duration_ns, cuda_body(&frame->own)->bytes);
	row = is_row(thread, frame, spec, ctx->ax) ? settle(frame) : NULL;
	if (row && spec->flags & CALL_CALLER)
		thread->runtime_known = 1;
	if (frame->lane)
		lane_leave(frame, spec, ctx->ax, row == &frame->own);
	else
		overlook(thread, spec);
	if (spec->flags & CALL_FOREIGN && !ctx->ax)
		wait_foreign(thread, frame, spec);
	if (!row)
		return 0;
	if (row == &frame->own && waits(cuda_body(row), spec))
		wait_leave(thread, frame, spec);
	pass_on(thread, task, total, frame->began_ns, row);
	return 0;
}

PROGRAMS(cuda, enter, leave)
