/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread remembers between the entry of a probed call and its return, and how nested
 * calls become rows.
 *
 * A row is one GPU operation. Each probed call under way is a frame:
 *
 *     enter -> frame { own arguments, operations seen inside, the one that waits }
 *     leave -> nothing inside          the call itself is the row
 *              one operation inside    it and the call are one row: the call's name and time
 *              several                 each keeps its own time, and is named after the outermost
 *
 * A row therefore waits in the frame around it until that one returns or a second one comes.
 */
#ifndef COTENANT_THREAD_BPF_H
#define COTENANT_THREAD_BPF_H

#include "common/share.bpf.h"
#include "common/call.h"
#include "common/sched.bpf.h"

#define FRAMES_MAX 4
#define BODY_WORDS 14
#define CONTEXTS_MAX 8
/* In slot 0: which slots could not be read. */
#define MISSING_STRUCT 1
#define MISSING_STACK 2

/* An event without its head. */
struct body {
	__u64 words[BODY_WORDS];
};

/* A row that waits for the call around it. */
struct row {
	__u64 began_ns;
	struct body body;
};

struct frame {
	__u64 sp;
	__u64 began_ns;
	__u64 out;		/* user addresses read at return */
	__u64 out_bytes;
	__u64 other;
	__u16 function;
	__u16 operations;
	__u8 waiting;
	__u8 quiet;		/* what happened inside went into a graph: no row */
	__u8 taken;		/* what the entry found: memory to be freed, a place in a stream */
	__u8 guarded;
	__u32 lane;		/* where it is counted as under way; see cuda/timing.bpf.h */
	__u32 attachment;	/* of the probe that saw it begin */
	struct body own;
	struct row row;
};

struct stack {
	__u64 depth;
	struct frame frames[FRAMES_MAX];
};

struct thread {
	__u64 process_start_ns;
	/* Whose it was when it last returned, and as of what; see refresh_tenant(). */
	struct whose whose;
	__u64 own_cgroup_id;
	__u64 version;
	__u64 migrations;
	__u64 context;
	__u64 not_ready;	/* what the last query found unfinished */
	__u64 not_ready_ns;	/* when it asked */
	__u64 group_id;
	__u32 group_depth;
	__u16 nccl_op;
	__u16 nccl_ops_mixed;
	__u64 contexts[CONTEXTS_MAX];
	__u32 contexts_depth;
	__u32 nested;		/* the driver's calls inside the runtime's are seen */
	__u64 runtime_known;	/* whether they are is known */
	__u64 counted_sp;	/* of the runtime's call that was only counted, until its operation comes */
	__u64 armings;		/* as of which `timed` is known */
	__u64 timed;		/* the process times what it runs */
	__u64 args[32];		/* scratch, by slot */
	struct stack cuda;
	struct stack nccl;
	struct stack names;
	struct budget budget;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FUNCTIONS_MAX);
	__type(key, __u32);
	__type(value, struct call_spec);
} functions SEC(".maps");

struct process {
	__u64 start_ns;
	__u64 tenant;
	__u64 captures;		/* that it has open; see cuda/capture.bpf.h */
	__u64 foreign;		/* a stream of its may wait for what is not the device's work */
};

/* Processes that called a probed function: their end is a fact, others' is not. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/*
 * Attachments whose place another one took, by their number's last bits: a call that one of them
 * saw begin may return without our being told, and it sees no call begin any more.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ENDED_MAX);
	__type(key, __u32);
	__type(value, __u32);
} ended SEC(".maps");

/* A probe's cookie: which attachment it is of, and its function. */
static __always_inline __u32 attachment_of(__u64 cookie)
{
	return cookie >> COOKIE_FUNCTION_BITS;
}

_Static_assert(COOKIE_FUNCTION_BITS == 8 * sizeof(__u16), "function_of() takes the low bits");

static __always_inline __u32 function_of(__u64 cookie)
{
	return (__u16)cookie;
}

/* Whether another one took its place. */
static __always_inline bool_t has_ended(__u32 attachment)
{
	__u32 place = attachment % ENDED_MAX;
	__u32 *number = bpf_map_lookup_elem(&ended, &place);

	return number && *number == attachment;
}

static __always_inline bool_t is_over(const struct frame *frame)
{
	return has_ended(frame->attachment);
}

/* Out of line: a thread changes its cgroup about never, and tenants come now and then. */
__noinline int thread_moved(struct thread *thread)
{
	struct task_struct *task = current_task();
	__u64 *moved = migrations_of(task->tgid);

	if (!thread)
		return 0;
	thread->version = tenants_version();
	thread->migrations = moved ? *moved : 0;
	thread->own_cgroup_id = cgroup_id_of(task);
	whose_task(&thread->whose, task);
	return 0;
}

/* Whether this very process is followed: what others left behind is nobody's. */
static __always_inline struct process *process_of(__u32 pid, __u64 start_ns)
{
	struct process *process = bpf_map_lookup_elem(&processes, &pid);

	return process && process->start_ns == start_ns ? process : NULL;
}

static __always_inline void process_drop(__u32 pid)
{
	struct process *process = bpf_map_lookup_elem(&processes, &pid);
	__u64 tenant;

	if (!process)
		return;
	tenant = process->tenant;
	if (!bpf_map_delete_elem(&processes, &pid))
		quota_give(tenant, QUOTA_processes);
}

/* A thread of a process that may be new. Beyond its tenant's quota, a process is not followed. */
__noinline int process_follow(struct thread *thread)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct process process = {};

	if (!thread || process_of(pid, thread->process_start_ns))
		return 0;
	process_drop(pid);
	process.start_ns = thread->process_start_ns;
	process.tenant = thread->whose.tenant;
	if (quota_take(process.tenant, QUOTA_processes, 0) &&
	    bpf_map_update_elem(&processes, &pid, &process, BPF_NOEXIST))
		quota_give(process.tenant, QUOTA_processes);
	return 0;
}

/* Of the current task: nobody else's thread is made. */
static __always_inline struct thread *thread_of(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, (void *)task, 0, 0);

	if (thread)
		return thread;
	thread = bpf_task_storage_get(&threads, (void *)task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count(COUNTER_NO_THREAD);
		return NULL;
	}
	thread->process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	budget_begin(&thread->budget, task->start_time);
	thread_moved(thread);
	process_follow(thread);
	gpu_mark(task);
	return thread;
}

/*
 * Whose thread it is now; once for each call, since the verifier searches all types of the kernel
 * for each step from a task to its cgroup. A version 2 cgroup never has the id of another.
 */
static __always_inline void refresh_tenant(struct thread *thread, struct task_struct *task)
{
	__u64 *moved = v1_controller < 0 ? &thread->migrations : migrations_of(task->tgid);

	if (thread->own_cgroup_id != cgroup_id_of(task) || thread->version != tenants_version() ||
	    !moved || thread->migrations != *moved)
		thread_moved(thread);
}

static __always_inline void head_fill(struct event_head *head, struct thread *thread,
				      struct task_struct *task, enum event_kind kind, __u32 size,
				      __u64 began_ns)
{
	head->timestamp_ns = began_ns;
	head->pid = task->tgid;
	head->tid = task->pid;
	head->cgroup_id = thread->whose.cgroup_id;
	comm_copy(head->comm, task);
	head->cgroup_v1_id = thread->whose.v1_id;
	head->process_start_ns = thread->process_start_ns;
	head->kind = kind;
	head->cpu = bpf_get_smp_processor_id();
	head->size = size;
	head->hierarchy = 0;
}

static __always_inline struct frame *frame_below(struct stack *stack)
{
	__u64 depth = stack->depth;

	if (depth == 0 || depth > FRAMES_MAX)
		return NULL;
	/* The mask changes nothing but what the verifier can see. */
	return &stack->frames[(depth - 1) & (FRAMES_MAX - 1)];
}

/* Frames at or below the stack pointer, or that are over, are of calls that do not return here. */
static __always_inline void drop_stale(struct stack *stack, __u64 sp)
{
	for (int i = 0; i < FRAMES_MAX; i++) {
		__u64 top = stack->depth - 1;

		if (stack->depth == 0 || top >= FRAMES_MAX)
			return;
		if (stack->frames[top].sp > sp && !is_over(&stack->frames[top]))
			return;
		stack->depth = top;
		count(COUNTER_STALE_FRAME);
	}
}

/* Whether the call is under way already: two attachments see it, one of which is about to go. */
static __always_inline bool_t seen_twice(const struct frame *top, __u64 sp, __u64 cookie)
{
	return top && top->sp == sp && top->function == function_of(cookie) &&
	       top->attachment != attachment_of(cookie) && !is_over(top);
}

static __always_inline struct frame *frame_push(const struct thread *thread, struct stack *stack,
						__u64 sp, __u64 cookie)
{
	struct frame *frame;
	__u64 depth;

	if (seen_twice(frame_below(stack), sp, cookie))
		return NULL;
	drop_stale(stack, sp);
	depth = stack->depth;
	if (depth >= FRAMES_MAX) {
		count(COUNTER_DEEP_CALL);
		quota_refused(thread->whose.tenant, QUOTA_frames);
		return NULL;
	}
	frame = &stack->frames[depth];
	stack->depth = depth + 1;
	frame->sp = sp;
	frame->function = function_of(cookie);
	frame->attachment = attachment_of(cookie);
	frame->operations = 0;
	frame->waiting = 0;
	frame->quiet = 0;
	frame->taken = 0;
	frame->guarded = 0;
	frame->out = 0;
	return frame;
}

/* At return the stack pointer is one word above where it was at entry. */
static __always_inline struct frame *frame_pop(struct stack *stack, __u64 sp_at_return)
{
	struct frame *frame = frame_below(stack);
	__u64 sp = sp_at_return - 8;

	if (!frame || frame->sp != sp) {
		drop_stale(stack, sp - 8);
		frame = frame_below(stack);
	}
	if (!frame || frame->sp != sp) {
		count(COUNTER_UNDER_WAY);
		return NULL;
	}
	stack->depth--;
	return frame;
}

/* Registers and stack words into the thread's slots, then the struct that one points at. */
static __always_inline void read_arguments(struct pt_regs *ctx, struct thread *thread,
					   const struct call_spec *spec)
{
	__u64 *args = thread->args;
	__u64 missing = 0;

	args[1] = ctx->di;
	args[2] = ctx->si;
	args[3] = ctx->dx;
	args[4] = ctx->cx;
	args[5] = ctx->r8;
	args[6] = ctx->r9;
	if (spec->stack) {
		/* A read costs as much as the rest; the driver's own call tells the same again. */
		if (spec->flags & CALL_CALLER && thread->nested) {
			missing = MISSING_STACK;
		} else if (bpf_probe_read_user(&args[SLOT_STACK], 6 * 8, (void *)(ctx->sp + 8))) {
			count(COUNTER_UNREADABLE);
			missing = MISSING_STACK;
		}
	}
	if (spec->in) {
		__u32 words = spec->in_words & 15;
		__u64 pointer = args[spec->in & 7] + spec->in_offset;

		if (bpf_probe_read_user(&args[SLOT_STRUCT], words * 8, (void *)pointer)) {
			count(COUNTER_UNREADABLE);
			missing |= MISSING_STRUCT;
		}
	}
	args[0] = missing;
}

/* A slot's value; slots past the struct read as nothing. */
static __always_inline __u64 slot(const struct thread *thread, __u8 number)
{
	return number < SLOT_END ? thread->args[number] : 0;
}

/* A value that came out of memory we could not read is unknown. */
static __always_inline bool_t slot_known(const struct thread *thread, __u8 number)
{
	if (number >= SLOT_STRUCT)
		return !(thread->args[0] & MISSING_STRUCT);
	if (number >= SLOT_STACK)
		return !(thread->args[0] & MISSING_STACK);
	return number;
}

/*
 * More than 64 TiB is an argument that is no size: no machine has it. The largest times as many
 * as a process may allocate is less than a sum can hold.
 */
static __always_inline bool_t is_size(__u64 bytes)
{
	return !(bytes >> 46);
}

#endif /* COTENANT_THREAD_BPF_H */
