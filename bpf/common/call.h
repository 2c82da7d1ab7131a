/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the arguments of a probed function are read: data that the agent fills in from its probe
 * table (src/cotenant/probes/tables/), one entry per function, found by the attach cookie.
 *
 * A slot says where a value lies: 0 nowhere, 1-6 a register argument, 7-12 an argument on the
 * stack, 13-24 a word of the struct that `in` points at.
 */
#ifndef COTENANT_CALL_H
#define COTENANT_CALL_H

enum call_number {
	FUNCTIONS_MAX = 1024,
	SLOT_STACK = 7,
	SLOT_STRUCT = 13,
	SLOT_END = 25,
	DIRECTION_CONSTANT = 1,	/* added to a cuda_direction */
	DIRECTION_SLOT = 128,	/* added to the slot of a cudaMemcpyKind */
	COOKIE_FUNCTION_BITS = 16,	/* of an attach cookie; above is the attachment's number */
	ENDED_MAX = 8192,	/* attachments that are remembered after their end */
};

enum call_flags {
	CALL_OPERATION = 1,	/* a GPU operation: counts inside an outer call, and merges with it */
	CALL_ROW = 2,		/* makes a row of its own when nothing inside it did */
	CALL_HANDLE_STUB = 4,	/* the handle is the caller's, not the driver's: kept beside it */
	CALL_READY = 8,		/* a query: a row only when not ready turns ready */
	CALL_BATCH = 16,	/* bytes are a sum: an array of sizes, and how many */
	CALL_HOST = 32,		/* memory of the host, not of a device */
	CALL_RAW = 64,		/* the text is sixteen bytes of any value */
	CALL_AT_ENTRY = 128,	/* all there is to know is known at entry: no return probe */
	CALL_CALLER = 256,	/* of the runtime: the driver is called inside */
	CALL_PER_THREAD = 512,	/* stream 0 is the thread's own default stream */
	CALL_QUEUES = 1024,	/* of the driver: queues something on a stream */
	CALL_SEVERAL = 2048,	/* on more streams than it tells */
	CALL_EVENT = 4096,	/* its address is an event, whose stream is the call's */
	CALL_FOREIGN = 8192,	/* makes a stream wait for what is not the device's work */
};

enum call_shape {
	SHAPE_NONE = 0,
	SHAPE_WORDS = 1,	/* cuLaunchKernel: six numbers, then shared bytes */
	SHAPE_PACKED = 2,	/* cudaLaunchKernel: two dim3 in two registers each */
	SHAPE_STRUCT = 3,	/* a launch config, the same layout in driver and runtime */
};

/* What a call that succeeded changes, besides being counted. */
enum call_step {
	STEP_NONE = 0,
	STEP_ALLOC = 1,
	STEP_FREE = 2,
	STEP_CREATE = 3,		/* physical memory, to be mapped */
	STEP_RELEASE = 4,
	STEP_RETAIN = 5,
	STEP_MAP = 6,
	STEP_UNMAP = 7,
	STEP_CAPTURE_BEGIN = 8,
	STEP_CAPTURE_END = 9,
	STEP_EVENT_RECORD = 10,
	STEP_EVENT_WAIT = 11,
	STEP_CONTEXT_SET = 12,
	STEP_CONTEXT_PUSH = 13,
	STEP_CONTEXT_POP = 14,
	STEP_CONTEXT_CREATE = 15,
	STEP_CONTEXT_DESTROY = 16,
	STEP_PRIMARY_RETAIN = 17,
	STEP_PRIMARY_RELEASE = 18,
	STEP_PRIMARY_RESET = 19,
	STEP_EVENT_CREATE = 20,
	STEP_EVENT_DESTROY = 21,
	STEP_EVENT_ELAPSED = 22,
	STEP_EVENT_GRAPH = 23,		/* recorded by a graph from now on */
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
	__u8 direction;		/* DIRECTION_CONSTANT or DIRECTION_SLOT, plus which */
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
	/* CUDA */
	__u8 step;
	__u8 out_bytes;		/* slot of a pointer to a size, multiplied with bytes at return */
	__u8 alternate;		/* used where `other` turns out to be 0 */
	__u8 guard;		/* a fact only if the low half of this slot is 0 */
	__u8 source_type;	/* offset of a CUmemorytype in the struct, with target_type */
	__u8 target_type;
	__u8 reserved[4];
};

_Static_assert(sizeof(struct call_spec) == 40, "call_spec has holes");

#endif /* COTENANT_CALL_H */
