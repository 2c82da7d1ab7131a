/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Exact totals beside the rows, and what the programs could not do: counted, never hidden.
 */
#ifndef COTENANT_TOTAL_H
#define COTENANT_TOTAL_H

#define TOTAL_BUCKETS 40	/* the last one holds everything from 2^39 ns, nine minutes */

struct total_key {
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u16 function;
	__u16 hierarchy;	/* as in event_head */
	__u16 reserved[2];
};

/* What stands for a function where the kernel raised the event: its kind and operation. */
enum kernel_function {
	KERNEL_FUNCTION_BIT = 0x8000,
	KERNEL_FUNCTION_KIND_SHIFT = 8,
};
#define KERNEL_FUNCTION(kind, op)                                                                  \
	(KERNEL_FUNCTION_BIT | (kind) << KERNEL_FUNCTION_KIND_SHIFT | (op))

struct total {
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
	__u64 bytes;
	__u64 window;		/* that max_ns is of */
	__u64 previous_ns;	/* the longest call of the window before, and which that was */
	__u64 previous_window;
	/* Events that were to become rows = those sent + shed + lost. */
	__u64 rows;
	__u64 shed;
	__u64 lost;
	__u64 carried;		/* the part of shed that is in the weight of rows */
	__u64 shed_bytes;
	__u64 carried_bytes;
	__u64 waiting;		/* shed in this window and not carried yet; see WAITING_BITS */
	__u64 waiting_bytes;	/* of each of them */
	__u64 unmeasured;	/* calls counted at entry only: no duration */
	__u64 withheld;		/* the part of shed that the budget of kernel events had no room for */
	__u64 tenant;		/* whose it is, as of the last call */
	__u64 payer;		/* whose quota it is part of, on one CPU; 0 on others */
	__u32 histogram[TOTAL_BUCKETS];
};

/* Of `waiting`, the low bits are how many; above is the window that they are of. */
#define WAITING_BITS 32

/* Append only: a number in an old note must keep its meaning. */
enum counter {
	COUNTER_TOTALS_FULL = 0,	/* no total for a new tenant and function */
	COUNTER_STALE_FRAME = 1,	/* left by longjmp, or by a return we never saw */
	COUNTER_DEEP_CALL = 2,		/* nested deeper than we follow */
	COUNTER_UNDER_WAY = 3,		/* returned from a call that began before the probe */
	COUNTER_NO_THREAD = 4,		/* no room for what a thread that calls remembers */
	COUNTER_UNREADABLE = 5,		/* an argument's memory could not be read */
	COUNTER_FACT_LOST = 6,		/* the ring of facts was full */
	COUNTER_ORPHAN_ROWS = 7,	/* rows for which no total could be kept */
	COUNTER_ORPHAN_LOST = 8,
	COUNTER_DIED_INSIDE = 9,	/* the thread ended inside a call */
	COUNTER_DIRTY_FULL = 16,	/* in old recordings: no room to note who dirtied a page */
	COUNTER_REQUEST_FULL = 17,	/* no room to follow a block request, whoever's it was */
	COUNTER_OWNERS_FULL = 18,	/* a request of more tenants than are told apart */
	COUNTER_MEMORY_FULL = 20,	/* in old recordings: no room to remember an allocation */
	COUNTER_ORPHAN_SHED = 21,
	COUNTER_CONTENTION_FULL = 22,	/* no room for who waits, or for a pair with who runs */
	COUNTER_IDENTITY_LOST = 23,	/* of cgroups and processes: told anew by a survey */
	COUNTER_NO_SCHED = 24,		/* no room for what is remembered between switches */
	COUNTER_END,
};

struct control {
	__u64 window;
	__u32 excludes;
	__u32 off;		/* set once: from then on programs on functions do nothing */
	/* Rows are shed above this fill of the ring, by those who use more than their share. */
	__u64 shed_above;
	__u64 share_bytes;	/* of the ring above that mark, for each tenant's GPU calls */
	__u64 divided_bytes;	/* all shares together are at most this */
	__u64 budget_calls;	/* that a thread earns each second; 0 records all; see budget_allows() */
	__u64 blind;		/* odd while probes go for good */
	/* The same for what the kernel raises: it comes after GPU calls. */
	__u64 kernel_above;
	__u64 kernel_share_bytes;
	/* Each grows with news of tenants: by the helper, and by the programs themselves. */
	__u64 tenants;
	__u64 delegations;
	/* The part of a CPU's time for programs on kernel events, in 2^-20; 0 is no limit. */
	__u64 kernel_budget;
	__u64 first_tenants;	/* grows when others come first */
	__u64 window_ns;	/* when the window began */
};

#endif /* COTENANT_TOTAL_H */
