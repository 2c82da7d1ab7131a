/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Programs whose events come in interrupts of their own runs.
 *
 * The kernel runs a program at most once at a time on a CPU, and leaves out the rest: a tenant
 * that opens connections without end would keep its neighbours' from being seen. So a second
 * program, `..._inside`, sits at the same hook, and does the work while the first is interrupted.
 *
 *   runs    program  ->  whether a run of it is under way on this CPU; events that the second took
 */
#ifndef COTENANT_INTERRUPTED_BPF_H
#define COTENANT_INTERRUPTED_BPF_H

#include "common/probe.bpf.h"

enum interrupted {
	INTERRUPTED_tcp_state = 0,
	INTERRUPTED_net_state = 1,
	INTERRUPTED_END,
};

VALUES(interrupted);

struct run {
	__u64 under_way;
	__u64 inside;
};

LAYOUT(run);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, INTERRUPTED_END);
	__type(key, __u32);
	__type(value, struct run);
} runs SEC(".maps");

/*
 * A flag, no count: kernels before v6.1 run the first program inside its own run, too, and then
 * it ends with nothing under way for the second.
 */
static __always_inline void run_set(__u32 program, bool_t under_way)
{
	struct run *run = bpf_map_lookup_elem(&runs, &program);

	if (run)
		*(volatile __u64 *)&run->under_way = under_way;
}

/* Whether the second program has to do the work of this event. */
static __always_inline bool_t run_inside(__u32 program)
{
	struct run *run = bpf_map_lookup_elem(&runs, &program);

	if (!run || !*(volatile __u64 *)&run->under_way)
		return 0;
	__sync_fetch_and_add(&run->inside, 1);
	return 1;
}

#endif /* COTENANT_INTERRUPTED_BPF_H */
