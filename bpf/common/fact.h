/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Facts: what later rows depend on. They travel in a small ring of their own, so that a flood
 * of launches may cost rows, never names or identities.
 */
#ifndef COTENANT_FACT_H
#define COTENANT_FACT_H

#define FACT_TEXT_MAX 4096

enum fact_kind {
	FACT_NAME = 1,		/* handle is called text */
	FACT_ALIAS = 2,		/* handle is another handle for `other` */
	FACT_UNREADABLE = 3,	/* no longer sent: see struct unread */
	FACT_FORGET = 4,	/* handles of module `handle` are gone */
	FACT_CGROUP_BORN = 5,	/* user `rank` made cgroup `handle` of hierarchy `other` at path text */
	FACT_CGROUP_GONE = 6,
	FACT_CGROUP_MOVED = 7,	/* renamed: text is its new path */
	FACT_PROCESS_EXEC = 8,	/* in mount namespace `other` */
	FACT_PROCESS_GONE = 9,
	FACT_COMMUNICATOR = 10, /* handle is rank `rank` of `nranks`; `other` hashes its id */
	FACT_COMM_SPLIT = 11,	/* handle was made from `other`, with color `rank` */
	FACT_TASK_MOVED = 12,	/* task pid entered cgroup `handle` of hierarchy `other` */
	FACT_DEVICE = 13,	/* device ordinal `handle` has the uuid in text */
	FACT_CONTEXT = 14,	/* context `handle` is on device ordinal `other` */
	FACT_POINTER = 15,	/* function text of version `other` was handed out at `handle` */
	FACT_GRAPH = 16,	/* a step in the life of a graph; see cuda/cuda.bpf.c */
	FACT_MEMORY = 17,	/* CUDA starts in this process: all of its memory is seen */
	FACT_COMM_RANK = 18,	/* communicator handle is rank `rank` */
	FACT_COMM_COUNT = 19,	/* communicator handle has `nranks` */
	FACT_PROCESS_FORK = 20,	/* process pid was forked in a new cgroup */
	FACT_ELAPSED = 21,	/* the operation that tid began at `handle` took `other`, a float, ms */
	FACT_STREAM = 22,	/* stream `address` was made with the flags in `other` */
};

struct fact {
	__u64 timestamp_ns;
	__u64 process_start_ns;
	__u64 cgroup_id;
	__u64 cgroup_v1_id;
	__u32 pid;
	__u32 tid;
	__u16 kind;
	__u16 function;
	__u32 size;		/* bytes of text, without a final NUL */
	__u64 handle;
	__u64 other;
	__u64 address;
	__s32 rank;
	__s32 nranks;
};

_Static_assert(sizeof(struct fact) == 80, "fact has holes");

/* A handle's name that could not be read: its page is not in memory yet. */
struct unread {
	__u64 process_start_ns;
	__u64 handle;
	__u64 address;
	__u32 pid;
	__u32 reserved;
};

_Static_assert(sizeof(struct unread) == 32, "unread has holes");

#endif /* COTENANT_FACT_H */
