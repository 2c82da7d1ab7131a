/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that began and of whose return nobody will be told: their thread ended or jumped out of
 * them, started another program, or their probes were replaced meanwhile. Each counts as one call
 * without a duration, as its row is one without a result.
 */
#ifndef COTENANT_UNRETURNED_BPF_H
#define COTENANT_UNRETURNED_BPF_H

#include "common/thread.bpf.h"

static __always_inline struct total *count_unreturned(struct thread *thread, __u16 function)
{
	struct total *total = total_of(&thread->whose, function);

	if (total) {
		__sync_fetch_and_add(&total->count, 1);
		__sync_fetch_and_add(&total->unmeasured, 1);
	}
	return total;
}

/* Whether the thread is not in this call any more, or nobody is told when it leaves it. */
static __always_inline bool_t is_left(const struct frame *frame, __u64 sp)
{
	return frame->sp <= sp || is_over(frame);
}

/* A function that goes on as another is one call, by the other's name: no return of it is missed. */
static __always_inline void pop_jumped(struct stack *stack, __u64 sp, __u16 function)
{
	struct frame *frame = frame_below(stack);

	if (frame && frame->sp == sp && frame->function != function && !frame->waiting) {
		stack->depth--;
		count(COUNTER_STALE_FRAME);
	}
}

/* The innermost call, if the thread has left it: then it is not on the stack any more. */
static __always_inline struct frame *pop_left(struct stack *stack, __u64 sp)
{
	struct frame *frame = frame_below(stack);

	if (!frame || !is_left(frame, sp))
		return NULL;
	stack->depth--;
	count(COUNTER_STALE_FRAME);
	return frame;
}

/* Every call that the thread has left, each by itself: the verifier follows no loop over them. */
#define abandon_all(one, thread, sp)                                                               \
	(one(thread, sp) && one(thread, sp) && one(thread, sp) && one(thread, sp))

_Static_assert(FRAMES_MAX == 4, "abandon_all() takes as many");

#endif /* COTENANT_UNRETURNED_BPF_H */
