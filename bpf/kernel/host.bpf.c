// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the host did to a thread: off-CPU spans, waits for a CPU, wakeups, births and ends.
 *
 *   switch out        woken             switch in
 *       |---------------|------------------|
 *       <- - - - - - - switch - - - - - - ->      off the CPU, whoever took it
 *                       <- - runqueue - - ->      runnable, and not running
 *
 * A thread that was preempted was runnable all the time: its switch, state R, is its wait.
 *
 * Each switch belongs to two threads: the one that leaves has spent time on the CPU, the one
 * that comes ends its span. Neither is asked for as the current task.
 */
#include "kernel/span.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(host_event);
VALUES(host_op);
VALUES(host_state);

#define TASK_DEAD 0x80
#define STACK_BYTES (16 << 10)
#define SAY_NS 4000000
#define SAY_EVERY_NS 100000000

/* Before Linux commit bcf9033e5449 ("sched: move CPU field back into thread_info ...") (v5.16). */
struct task_struct___own_cpu {
	unsigned int cpu;
} BTF;

struct thread_info___cpu {
	unsigned int cpu;
} BTF;

struct task_struct___info {
	struct thread_info___cpu thread_info;
} BTF;

static __always_inline __u32 cpu_of(struct task_struct *task)
{
	struct task_struct___own_cpu *own = (void *)task;
	struct task_struct___info *with_info = (void *)task;

	if (bpf_core_field_exists(own->cpu))
		return BPF_CORE_READ(own, cpu);
	return BPF_CORE_READ(with_info, thread_info.cpu);
}

struct bpf_iter__task {
	struct task_struct *task;
} BTF;

static __always_inline void leaves(struct sched_task *sched, __u64 now, bool_t last)
{
	if (sched->on_since) {
		sched->on_ns += now - sched->on_since;
		sched->on_times++;
		sched->on_since = 0;
	}
	if (last || sched->on_times >= SAY_TIMES || sched->on_ns >= SAY_NS ||
	    now - sched->said_ns >= SAY_EVERY_NS) {
		sched->said_ns = now;
		say(sched);
	}
}

static __always_inline void off_row(const struct cpu_runs *cpu, const struct task_struct *task,
				    struct sched_task *sched, __u64 off, __u64 now)
{
	struct host_event *row = host_row(sched_total(sched, TOTAL(switch)), task, sched,
					  HOST_OP_switch, off);

	if (!row)
		return;
	row->duration_ns = now - off;
	row->state = sched->state;
	row->known = 1 << HOST_KNOWN_DURATION | 1 << HOST_KNOWN_STATE;
	row_peer(row, sched->taker_pid, sched->taker_cgroup_id, sched->taker_v1_id);
	if (sched->state == HOST_STATE_R)
		row_thief(row, cpu);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

static __always_inline void wait_row(const struct cpu_runs *cpu, const struct task_struct *task,
				     struct sched_task *sched, __u32 holder_pid,
				     const struct sched_task *holder, __u64 runnable, __u64 now)
{
	struct host_event *row = host_row(sched_total(sched, TOTAL(runqueue)), task, sched,
					  HOST_OP_runqueue, runnable);

	if (!row)
		return;
	row->duration_ns = now - runnable;
	row->known = 1 << HOST_KNOWN_DURATION;
	if (holder)
		row_peer(row, holder_pid, holder->whose.cgroup_id, holder->whose.v1_id);
	row_thief(row, cpu);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

static __always_inline void comes(struct cpu_runs *cpu, struct task_struct *task,
				  struct sched_task *sched, __u32 holder_pid,
				  const struct sched_task *holder, __u64 now)
{
	__u64 off = sched->off_since, runnable = waits_since(sched);
	bool_t preempted = off && sched->state == HOST_STATE_R;
	bool_t off_is_row = off && span_worth_a_row(sched, now - off) &&
			    span_row_allowed(sched, &sched->offs_withheld);
	bool_t wait_is_row = runnable && !preempted && wait_worth_a_row(sched, now - runnable) &&
			     span_row_allowed(sched, &sched->waits_withheld);

	if (runnable) {
		wait_ends(bpf_get_smp_processor_id(), sched, later(runnable, sched->told_until), now,
			  wait_is_row || (preempted && off_is_row));
		waited(sched, now - runnable);
	}
	if (sched->runnable_since)
		sched->woken_ns = sched->runnable_since;
	if (off) {
		sched->off_ns += now - off;
		sched->off_times++;
	}
	if (off_is_row)
		off_row(cpu, task, sched, off, now);
	if (wait_is_row)
		wait_row(cpu, task, sched, holder_pid, holder, runnable, now);
	sched->told_until = 0;
	sched->came_ns = now;
	sched->on_since = now;
	sched->off_since = 0;
	sched->runnable_since = 0;
}

/*
 * The kernel has memory at hand for one new thread on each CPU, and gets more once interrupts are
 * on again: a thread that leaves at a CPU's first switch counts as off since before the recording.
 */
static __always_inline int switched(bool_t preempt, struct task_struct *prev,
				    struct task_struct *next, unsigned int prev_state)
{
	struct cpu_runs *cpu = runs_of(bpf_get_smp_processor_id());
	__u64 make = cpu && cpu->since ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0;
	struct sched_task *from = prev->pid ? sched_get(prev, make) : NULL;
	struct sched_task *to = next->pid ? sched_of(next) : NULL;
	__u64 now = bpf_ktime_get_ns();

	if (cpu)
		run_ends(cpu, from, now);
	if (from) {
		leaves(from, now, prev_state & TASK_DEAD);
		from->off_since = now;
		from->state = state_of(preempt, prev_state);
		from->taker_pid = to ? next->pid : 0;
		from->taker_cgroup_id = to ? to->whose.cgroup_id : 0;
		from->taker_v1_id = to ? to->whose.v1_id : 0;
	}
	if (to)
		comes(cpu, next, to, prev->pid, from, now);
	return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(host_switch, bool_t preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return METERED(EVENT_HOST, switched(preempt, prev, next, prev_state));
}

/*
 * Before Linux commit fa2c3254d7cf ("sched/tracing: Don't re-read p->state when emitting
 * sched_switch event") (v5.18), the state is not told. A waker may have changed it by now.
 */
SEC("?tp_btf/sched_switch")
int BPF_PROG(host_switch_reading, bool_t preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	return METERED(EVENT_HOST, switched(preempt, prev, next, BPF_CORE_READ(prev, __state)));
}

/*
 * A thread that waits is moved to another CPU's queue, with its own queue locked. One that is
 * being woken is on none yet.
 */
static __always_inline void migrates(struct task_struct *task)
{
	struct sched_task *sched;
	__u64 since, now;

	if (!task->on_rq)
		return;
	sched = bpf_task_storage_get(&sched_tasks, task, 0, 0);
	since = sched && sched->cgroups && !sched->on_since ? waits_since(sched) : 0;
	if (!since)
		return;
	now = bpf_ktime_get_ns();
	wait_ends(cpu_of(task), sched, later(since, sched->told_until), now, 0);
	sched->told_until = now;
}

SEC("?tp_btf/sched_migrate_task")
int BPF_PROG(host_migrate, struct task_struct *task)
{
	return METERED(EVENT_HOST, migrates(task));
}

/* A row of its own frame: see host_waking. */
static __noinline int wakeup_row(struct task_struct *task, struct sched_task *sched, __u64 own)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct whose whose = {};
	struct host_event *row;
	struct total *total;

	if (!sched)
		return 0;
	total = sched_total(sched, TOTAL(wakeup));
	if (!event_row_allowed(sched, total))
		return 0;
	row = host_row(total, task, sched, HOST_OP_wakeup, sched->runnable_since);
	if (!row)
		return 0;
	if (own && waker->pid) {
		whose_of(&whose, waker);
		row_peer(row, waker->pid, whose.cgroup_id, whose.v1_id);
	}
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The waker is current here, and only here: a remote wakeup is carried out by an interrupt. What
 * an interrupt wakes is nobody's doing. Interrupts run on a stack of their own, so our frame tells
 * where we are, as long as it is a small one: a large one is put on a private stack.
 */
static __always_inline void waking(struct task_struct *task)
{
	struct sched_task *sched = bpf_task_storage_get(&sched_tasks, task, 0,
							BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *current;
	__u64 frame;

	if (!sched)
		return;
	sched->runnable_since = bpf_ktime_get_ns();
	/* Without cgroups no switch has been seen, and its tenant is not known yet. */
	if ((!host_all && !sched->gpu) || !sched->cgroups)
		return;
	current = bpf_get_current_task_btf();
	/* The difference of two pointers is a number; the task's address is one already. */
	asm volatile("%[frame] = r10; %[frame] -= %[task]"
		     : [frame] "=&r"(frame)
		     : [task] "r"(current));
	frame += bpf_get_current_task() - (__u64)current->stack;
	wakeup_row(task, sched, frame < STACK_BYTES);
}

SEC("?tp_btf/sched_waking")
int BPF_PROG(host_waking, struct task_struct *task)
{
	return METERED(EVENT_HOST, waking(task));
}

static __always_inline void woken_new(struct task_struct *task)
{
	struct sched_task *sched = sched_of(task);

	if (sched)
		sched->runnable_since = bpf_ktime_get_ns();
}

SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(host_wakeup_new, struct task_struct *task)
{
	return METERED(EVENT_HOST, woken_new(task));
}

/* A thread that never leaves its CPU is counted at every tick; runs on each CPU, as an interrupt. */
SEC("?perf_event")
int host_tick(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sched_task *sched = task->pid ? sched_of(task) : NULL;
	__u64 now = bpf_ktime_get_ns();

	if (!sched)
		return 0;
	if (sched->on_since)
		sched->on_ns += now - sched->on_since;
	sched->on_since = now;
	say(sched);
	return 0;
}

/* The last word of every thread, once no switch comes between. */
SEC("?iter/task")
int host_say(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct sched_task *sched;
	__u64 now = bpf_ktime_get_ns();

	sched = task ? bpf_task_storage_get(&sched_tasks, task, 0, 0) : NULL;
	if (!sched)
		return 0;
	if (sched->on_since)
		sched->on_ns += now - sched->on_since;
	sched->on_since = 0;
	say(sched);
	return 0;
}

static __always_inline struct host_event *life(struct task_struct *task, __u16 op, __u16 function)
{
	struct sched_task *sched = sched_of(task);
	struct total *total;

	if (!sched)
		return NULL;
	total = sched_total(sched, function);
	if (total)
		total_add(total, 0, 0);
	if ((op != HOST_OP_oom_kill && !worth_a_row(sched)) || !event_row_allowed(sched, total))
		return NULL;
	return host_row(total, task, sched, op, bpf_ktime_get_ns());
}

static __always_inline void executes(struct task_struct *task)
{
	struct host_event *row = life(task, HOST_OP_exec, TOTAL(exec));

	if (row)
		bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(host_exec, struct task_struct *task)
{
	return METERED(EVENT_HOST, executes(task));
}

static __always_inline void forks(struct task_struct *parent, struct task_struct *child)
{
	struct host_event *row = life(parent, HOST_OP_fork, TOTAL(fork));
	struct whose whose = {};

	if (!row)
		return;
	whose_task(&whose, child);
	row_peer(row, child->pid, whose.cgroup_id, whose.v1_id);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

SEC("?tp_btf/sched_process_fork")
int BPF_PROG(host_fork, struct task_struct *parent, struct task_struct *child)
{
	return METERED(EVENT_HOST, forks(parent, child));
}

static __always_inline void exits(struct task_struct *task)
{
	struct host_event *row = life(task, HOST_OP_exit, TOTAL(exit));

	if (row)
		bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(host_exit, struct task_struct *task)
{
	return METERED(EVENT_HOST, exits(task));
}

/* The one who dies is not the one who asked for memory. */
SEC("?tp_btf/mark_victim")
int BPF_PROG(host_oom_kill, struct task_struct *task)
{
	struct host_event *row = life(task, HOST_OP_oom_kill, TOTAL(oom_kill));
	struct task_struct *asker;
	struct whose whose = {};

	if (!row)
		return 0;
	asker = bpf_get_current_task_btf();
	whose_task(&whose, asker);
	row_peer(row, asker->pid, whose.cgroup_id, whose.v1_id);
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
	return 0;
}
