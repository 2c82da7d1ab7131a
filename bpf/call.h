/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the arguments of a probed function are read: data that the agent fills in from its probe
 * table (src/cotenant/probes/table.py), one entry per function, found by the attach cookie.
 *
 * A slot says where a value lies: 0 nowhere, 1-6 a register argument, 7-12 an argument on the
 * stack, 13-20 a word of the struct that `in` points at.
 */
#ifndef COTENANT_CALL_H
#define COTENANT_CALL_H

#define FUNCTIONS_MAX 1024
#define SLOT_STACK 7
#define SLOT_STRUCT 13
#define SLOT_END 21

enum call_flags {
	CALL_OPERATION = 1,	/* a GPU operation: counts inside an outer call, and merges with it */
	CALL_ROW = 2,		/* makes a row of its own when nothing inside it did */
	CALL_HANDLE_STUB = 4,	/* the handle is the caller's, not the driver's: kept beside it */
	CALL_READY = 8,		/* a query: a row only when not ready turns ready */
	CALL_OUT_BYTES = 16,	/* what `out` points at is a size, not an address */
	CALL_CONTEXT = 32,	/* the handle becomes the thread's context on success */
	CALL_CONTEXT_POP = 64,
	CALL_AT_ENTRY = 128,	/* all there is to know is known at entry: no return probe */
};

enum call_shape {
	SHAPE_NONE = 0,
	SHAPE_WORDS = 1,	/* cuLaunchKernel: six numbers, then shared bytes */
	SHAPE_PACKED = 2,	/* cudaLaunchKernel: two dim3 in two registers each */
	SHAPE_STRUCT = 3,	/* a launch config, the same layout in driver and runtime */
};

struct call_spec {
	__u16 flags;
	__u8 op;
	__u8 shape;
	__u8 stack;		/* arguments to read from the stack */
	__u8 in;		/* slot of the pointer to a struct */
	__u16 in_offset;
	__u8 in_words;
	__u8 out;		/* slot of a pointer that the call writes through */
	__u8 handle;
	__u8 stream;
	__u8 address;
	__u8 bytes[3];		/* slots that are multiplied */
	__u8 bytes_shift;
	__u8 direction;		/* 1 + a constant, or 128 + the slot of a cudaMemcpyKind */
	/* NCCL */
	__u8 datatype;
	__u8 reduce_op;
	__u8 root;
	__u8 peer;
	__u8 communicator;
	/* Names: what the fact says. */
	__u8 fact;
	__u8 text;		/* slot of a string, or of a pointer to one if text_out */
	__u8 text_out;
	__u8 other;
	__u8 rank;
	__u8 nranks;
	__u8 config;		/* slot of an ncclConfig_t */
	__u8 reserved[2];
};

_Static_assert(sizeof(struct call_spec) == 32, "call_spec has holes");

#endif /* COTENANT_CALL_H */
