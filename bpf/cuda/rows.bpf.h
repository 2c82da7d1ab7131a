/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rows of calls into the ring: of those that returned, and of those that were left otherwise.
 */
#ifndef COTENANT_ROWS_BPF_H
#define COTENANT_ROWS_BPF_H

#include "common/unreturned.bpf.h"
#include "cuda/timing.bpf.h"

/* A call that may queue something, and is not looked at. */
static __always_inline void overlook(struct thread *thread, const struct call_spec *spec)
{
	if (spec->flags & CALL_QUEUES && timed(thread))
		lanes_spoil();
}

static __always_inline void emit(struct thread *thread, struct task_struct *task,
				 struct total *total, __u64 began_ns, const struct body *body)
{
	struct cuda_event *event;

	if (cuda_body((struct body *)body)->lane)
		lane_row(thread, body, began_ns);
	event = row_begin(total, thread->whose.tenant, sizeof(*event),
			  cuda_body((struct body *)body)->bytes);
	if (!event)
		return;
	head_fill(&event->head, thread, task, EVENT_CUDA, sizeof(*event), began_ns);
	*(struct body *)((void *)event + sizeof(struct event_head)) = *body;
	event->weight = row_weight(total, began_ns, event->bytes);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* A row waits in a call whose return nobody will tell: it goes by its own name. */
__noinline int send_waiting(struct thread *thread, struct frame *frame)
{
	struct task_struct *task = current_task();
	struct total *total;

	if (!thread || !frame)
		return 0;
	frame->waiting = 0;
	refresh_tenant(thread, task);
	total = total_of(&thread->whose, cuda_body(&frame->row.body)->function);
	emit(thread, task, total, frame->row.began_ns, &frame->row.body);
	return 0;
}

/*
 * Whether the driver's call that begins now is the operation of this call of the runtime: so far
 * it had none, and the thread is deeper in the stack than it.
 */
static __always_inline bool_t goes_on(const struct thread *thread, const struct frame *frame,
				      const struct call_spec *spec, __u64 sp)
{
	return frame->sp > sp && spec->flags & CALL_CALLER && thread->nested;
}

/* A call that the thread has left without our being told. */
static __always_inline void abandon(struct thread *thread, struct task_struct *task,
				    struct frame *frame, __u64 sp)
{
	__u32 function = frame->function;
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	struct frame *outer = frame_below(&thread->cuda);
	struct total *total = count_unreturned(thread, function);

	if (!spec)
		return;
	if (frame->lane)
		lane_leave(frame, spec, -1, 0);
	overlook(thread, spec);
	if (frame->waiting) {
		send_waiting(thread, frame);
	} else if (!frame->operations && !frame->quiet && spec->flags & CALL_OPERATION &&
		   !(spec->flags & CALL_READY) && !goes_on(thread, frame, spec, sp)) {
		emit(thread, task, total, frame->began_ns, &frame->own);
		/* What was inside it is told. */
		if (outer && outer->operations < 0xfff0)
			outer->operations += 2;
	}
}

/* The innermost call, if the thread has left it; whether it had. */
__noinline int abandon_one(struct thread *thread, __u64 sp)
{
	struct task_struct *task = current_task();
	struct frame *frame;

	frame = thread ? pop_left(&thread->cuda, sp) : NULL;
	if (!frame)
		return 0;
	refresh_tenant(thread, task);
	abandon(thread, task, frame, sp);
	return 1;
}

#endif /* COTENANT_ROWS_BPF_H */
