// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls that have not returned: those under way now, and those whose thread ended inside them, or
 * started another program there.
 *
 *   calls_under_way   every thread's outermost call, when the agent looks
 *   thread_exit       a row without a result, since none ever came
 *   thread_exec       the same
 */
#include "common/unreturned.bpf.h"
#include "common/flight.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

LAYOUT(flight);

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} BTF;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} BTF;

#define NCCL_BODY ((sizeof(struct nccl_event) - sizeof(struct event_head)) / 8)

static __always_inline bool_t makes_rows(__u32 function)
{
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);

	return spec && spec->flags & (CALL_ROW | CALL_OPERATION);
}

/* The outermost call whose return we will be told. */
static __always_inline struct frame *outermost_of(struct stack *stack)
{
	for (int i = 0; i < FRAMES_MAX && i < stack->depth; i++)
		if (!is_over(&stack->frames[i]))
			return &stack->frames[i];
	return NULL;
}

static __always_inline void tell(struct bpf_iter__task *ctx, struct task_struct *task,
				 struct thread *thread, struct stack *stack, __u16 kind)
{
	struct frame *outermost = outermost_of(stack);
	struct flight flight = {};
	struct whose whose = {};

	if (!outermost)
		return;
	flight.began_ns = outermost->began_ns;
	whose_task(&whose, task);
	flight.cgroup_id = whose.cgroup_id;
	flight.cgroup_v1_id = whose.v1_id;
	flight.process_start_ns = thread->process_start_ns;
	flight.pid = task->tgid;
	flight.tid = task->pid;
	flight.function = outermost->function;
	flight.kind = kind;
	for (int i = 0; i < sizeof(flight.comm); i++)
		flight.comm[i] = task->comm[i];
	if (kind == EVENT_CUDA) {
		struct cuda_event *event = (void *)&outermost->own - sizeof(struct event_head);

		flight.stream = event->stream;
		flight.known = event->known >> CUDA_KNOWN_STREAM & 1;
	} else {
		struct nccl_event *event = (void *)&outermost->own - sizeof(struct event_head);

		flight.stream = event->stream;
		flight.known = event->known >> NCCL_KNOWN_STREAM & 1;
		flight.communicator = event->communicator;
	}
	bpf_seq_write(ctx->meta->seq, &flight, sizeof(flight));
}

SEC("?iter/task")
int calls_under_way(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread *thread;

	if (!task)
		return 0;
	thread = bpf_task_storage_get(&threads, (void *)task, 0, 0);
	if (!thread)
		return 0;
	tell(ctx, task, thread, &thread->cuda, EVENT_CUDA);
	tell(ctx, task, thread, &thread->nccl, EVENT_NCCL);
	return 0;
}

/* The arguments of the innermost call, the name and the time of the outermost. */
static __always_inline struct body *last_words(struct stack *stack, struct frame *outermost)
{
	struct frame *innermost = frame_below(stack);

	if (!innermost || !outermost || !makes_rows(outermost->function))
		return NULL;
	return outermost->waiting ? &outermost->row.body : &innermost->own;
}

/* Room for the row of a call that never returned, with its head; NULL where it is left out. */
static __always_inline void *last_row(struct thread *thread, struct task_struct *task,
				      struct total *total, __u64 began_ns, enum event_kind kind,
				      __u32 size, __u64 bytes)
{
	void *event;

	count(COUNTER_DIED_INSIDE);
	event = row_begin(total, thread->whose.tenant, size, bytes);
	if (event)
		head_fill(event, thread, task, kind, size, began_ns);
	return event;
}

/* An operation that is done waits in a call whose return nobody would have told. */
static __always_inline void end_waiting(struct thread *thread, struct task_struct *task)
{
	struct frame *frame = &thread->cuda.frames[0];
	struct cuda_event *event, *done;
	struct total *total;

	if (!thread->cuda.depth || !frame->waiting || !is_over(frame))
		return;
	done = (void *)&frame->row.body - sizeof(struct event_head);
	total = total_of(&thread->whose, done->function);
	event = last_row(thread, task, total, frame->row.began_ns, EVENT_CUDA, sizeof(*event),
			 done->bytes);
	if (!event)
		return;
	*(struct body *)((void *)event + sizeof(struct event_head)) = frame->row.body;
	event->weight = row_weight(total, frame->row.began_ns, event->bytes);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void end_cuda(struct thread *thread, struct task_struct *task)
{
	struct frame *outermost = outermost_of(&thread->cuda);
	struct body *body = last_words(&thread->cuda, outermost);
	struct cuda_event *event, *begun;
	struct total *total;

	if (!body)
		return;
	begun = (void *)body - sizeof(struct event_head);
	total = total_of(&thread->whose, outermost->function);
	event = last_row(thread, task, total, outermost->began_ns, EVENT_CUDA, sizeof(*event),
			 begun->bytes);
	if (!event)
		return;
	*(struct body *)((void *)event + sizeof(struct event_head)) = *body;
	event->api = outermost->function;
	event->known &= ~(1 << CUDA_KNOWN_RESULT | 1 << CUDA_KNOWN_DURATION);
	event->weight = row_weight(total, outermost->began_ns, event->bytes);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void end_nccl(struct thread *thread, struct task_struct *task)
{
	struct frame *outermost = outermost_of(&thread->nccl);
	struct body *body = last_words(&thread->nccl, outermost);
	struct nccl_event *event, *begun;
	struct total *total;

	if (!body)
		return;
	begun = (void *)body - sizeof(struct event_head);
	total = total_of(&thread->whose, outermost->function);
	event = last_row(thread, task, total, outermost->began_ns, EVENT_NCCL, sizeof(*event),
			 begun->bytes);
	if (!event)
		return;
	for (int i = 0; i < NCCL_BODY; i++)
		((__u64 *)((void *)event + sizeof(struct event_head)))[i] = body->words[i];
	event->api = outermost->function;
	event->known &= ~(1 << NCCL_KNOWN_RESULT | 1 << NCCL_KNOWN_DURATION);
	event->weight = row_weight(total, outermost->began_ns, event->bytes);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void count_all(struct thread *thread, struct stack *stack)
{
	for (int i = 0; i < FRAMES_MAX && i < stack->depth; i++)
		count_unreturned(thread, stack->frames[i].function);
}

/* No call of the thread will return any more. */
static __always_inline void end_all(struct thread *thread, struct task_struct *task)
{
	refresh_tenant(thread, task);
	count_all(thread, &thread->cuda);
	count_all(thread, &thread->nccl);
	end_waiting(thread, task);
	end_nccl(thread, task);
	end_cuda(thread, task);
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, (void *)task, 0, 0);

	if (thread)
		end_all(thread, task);
	return 0;
}

/* Its other threads have ended by now. What it knew goes next: see program_drop(). */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(thread_exec, struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, (void *)task, 0, 0);

	if (!thread)
		return 0;
	end_all(thread, task);
	thread->cuda.depth = 0;
	thread->nccl.depth = 0;
	thread->names.depth = 0;
	thread->nested = 0;
	thread->runtime_known = 0;
	return 0;
}
