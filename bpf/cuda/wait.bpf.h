/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a call that waits for the device proves, and what its thread saw of the device.
 *
 *   asleep    woken ---.                      the device was done shortly before
 *                      `- - run queue - - return
 *   spinning  ----------------- return        shortly before, if it has been on a CPU for a while
 *   a query   not ready ... ready             the device was at work when it found it unfinished
 */
#ifndef COTENANT_WAIT_BPF_H
#define COTENANT_WAIT_BPF_H

#include "cuda/moment.bpf.h"

/* On a CPU for so long, a thread waits for the device there; if it was away, it is slow at first. */
#define SPUN_NS 20000
#define SPUN_AGAIN_NS 200000

static __always_inline bool_t waits(const struct cuda_event *event, const struct call_spec *spec)
{
	return event->op == CUDA_OP_sync || spec->flags & CALL_READY ||
	       (event->op == CUDA_OP_memcpy && !spec->stream);
}

/* A wait for an event is one for the stream it was recorded on, up to its record. */
static __always_inline void wait_event(const struct thread *thread, struct cuda_event *event)
{
	struct moment *moment = moment_of(thread, event->address, 0);

	if (!moment || !moment->ended_ns || moment->busy)
		return;
	event->stream = moment->handle;
	event->known |= 1 << CUDA_KNOWN_STREAM;
	if (moment->graphed)
		return;
	/* The default streams are those of a context, or of a thread. */
	if (moment->stream != moment->handle || moment->handle <= 2) {
		if (moment->stream != STREAM_LEGACY &&
		    moment->tid != (__u32)bpf_get_current_pid_tgid())
			return;
		if (moment->stream != STREAM_LEGACY)
			event->stream = 2;
		event->context = moment->context;
		event->known &= ~(1 << CUDA_KNOWN_CONTEXT);
		if (moment->context)
			event->known |= 1 << CUDA_KNOWN_CONTEXT;
	}
	event->bytes = moment->began_ns;
	event->known |= 1 << CUDA_KNOWN_RECORDED;
}

/* A thread that slept is on a CPU again soon after; one that copies has more to do then. */
static __always_inline void wait_thread(const struct frame *frame, struct cuda_event *event)
{
	struct sched_task *sched = bpf_task_storage_get(&sched_tasks, (void *)current_task(), 0, 0);
	__u64 now = frame->began_ns + event->duration_ns;
	bool_t away;

	if (!sched || !sched->came_ns)
		return;
	away = sched->came_ns > frame->began_ns;
	if (sched->woken_ns > frame->began_ns &&
	    (event->op == CUDA_OP_memcpy || now - sched->came_ns < SPUN_AGAIN_NS)) {
		event->seen_ns = sched->woken_ns;
		event->known |= 1 << CUDA_KNOWN_WOKEN;
	} else if (away ? now - sched->came_ns >= SPUN_AGAIN_NS :
			  event->duration_ns >= SPUN_NS) {
		event->seen_ns = now;
		event->known |= 1 << CUDA_KNOWN_SPUN;
	}
}

__noinline int wait_leave(struct thread *thread, struct frame *frame, const struct call_spec *spec)
{
	struct cuda_event *event;
	struct process *process;
	__u64 context;

	if (!thread || !frame || !spec)
		return 0;
	event = cuda_body(&frame->own);
	context = event->address;
	if (spec->flags & CALL_EVENT) {
		wait_event(thread, event);
	} else if (event->op == CUDA_OP_sync && spec->address && context) {
		event->context = context;
		event->known |= 1 << CUDA_KNOWN_CONTEXT;
	}
	process = process_of(bpf_get_current_pid_tgid() >> 32, thread->process_start_ns);
	if (!process || process->foreign) {
		/* All that its streams wait for is over. */
		if (process && event->op == CUDA_OP_sync && !spec->stream &&
		    !(spec->flags & CALL_EVENT))
			process->foreign = 0;
		return 0;
	}
	if (!(spec->flags & CALL_READY)) {
		wait_thread(frame, event);
	} else if (thread->not_ready_ns) {
		event->seen_ns = thread->not_ready_ns;
		event->known |= 1 << CUDA_KNOWN_NOT_READY;
	}
	return 0;
}

/* A stream waits for an event of another process, say, or for the host. */
__noinline int wait_foreign(struct thread *thread, struct frame *frame,
			    const struct call_spec *spec)
{
	struct process *process;
	struct moment *moment;

	if (!thread || !frame || !spec)
		return 0;
	if (spec->step == STEP_EVENT_WAIT) {
		moment = moment_of(thread, cuda_body(&frame->own)->address, 0);
		if (moment && moment->ended_ns && !moment->graphed &&
		    moment->context == thread->context)
			return 0;
	}
	process = process_of(bpf_get_current_pid_tgid() >> 32, thread->process_start_ns);
	if (process)
		process->foreign = 1;
	return 0;
}

#endif /* COTENANT_WAIT_BPF_H */
