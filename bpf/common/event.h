/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every event the agent records, declared once.
 *
 * tools/gen_schema.py reads these structs back from the BTF of the built objects and writes
 * src/cotenant/schema/events.py. A field with DOC() is a column of the table <name>_events, in
 * the order of the struct; a field without one stays on the wire.
 *
 *   DOC("...")       the column's documentation
 *   AS("maker")      how the agent turns the wire value into the stored one; see agent/recorder/ingest/columns/
 *   COLUMN("name")   the column's name where it differs from the field's
 *   KNOWN(bit)       the column is NULL unless this bit is set in the event's `known`
 *   DERIVED(...)     a column with no bytes on the wire, filled in by its maker
 *
 * The value of an enumerated column is stored as the text after the enumerator's prefix.
 */
#ifndef COTENANT_EVENT_H
#define COTENANT_EVENT_H

#include "common/layout.h"

#define TAG(text) __attribute__((btf_decl_tag(text)))
#define DOC(text) TAG("doc:" text)
#define AS(maker) TAG("as:" maker)
#define COLUMN(name) TAG("column:" name)
#define KNOWN_(bit) TAG("known:" #bit)
#define KNOWN(bit) KNOWN_(bit)
#define DERIVED(name) char name[0]

/* Stored in every file ever written: append only, never renumber. */
enum event_kind {
	EVENT_CUDA = 1,
	EVENT_NCCL = 2,
	EVENT_HOST = 3,
	EVENT_IO = 4,
	EVENT_NET = 5,
	EVENT_TCP = 6,
	EVENT_KIND_END,
};

struct event_head {
	__u64 timestamp_ns DOC("when it began; UTC") AS("time");
	__u32 pid DOC("process id in the host's pid namespace");
	__u32 tid DOC("thread id in the host's pid namespace");
	__u64 cgroup_id DOC("the tenant it belongs to; joins containers") AS("cgroup");
	char comm[16] DOC("name of the thread");
	/* The same task in one version 1 hierarchy: names the tenant where version 2 does not. */
	__u64 cgroup_v1_id;
	/* With pid, the process for ever: pids come round again. */
	__u64 process_start_ns;
	__u16 kind;
	__u16 cpu;
	__u16 size;
	/* The one cgroup_id is of; 0 is version 2, and only then cgroup_v1_id says more. */
	__u16 hierarchy;
};

enum cuda_op {
	CUDA_OP_launch = 1,
	CUDA_OP_memcpy = 2,
	CUDA_OP_memset = 3,
	CUDA_OP_alloc = 4,
	CUDA_OP_free = 5,
	CUDA_OP_sync = 6,
	CUDA_OP_graph_launch = 7,
	CUDA_OP_event = 8,
	CUDA_OP_stream = 9,
	CUDA_OP_context = 10,
	CUDA_OP_module = 11,
	CUDA_OP_device = 12,
	CUDA_OP_graph = 13,
	CUDA_OP_init = 14,
	CUDA_OP_map = 15,
	CUDA_OP_host = 16,
	CUDA_OP_query = 17,
	CUDA_OP_prefetch = 18,
	CUDA_OP_pool = 19,
	CUDA_OP_discard = 20,
	CUDA_OP_decompress = 21,
};

/* As in cudaMemcpyKind, plus one. */
enum cuda_direction {
	CUDA_DIRECTION_HtoH = 0,
	CUDA_DIRECTION_HtoD = 1,
	CUDA_DIRECTION_DtoH = 2,
	CUDA_DIRECTION_DtoD = 3,
};

#define CUDA_KNOWN_CONTEXT 0
#define CUDA_KNOWN_STREAM 1
#define CUDA_KNOWN_SHAPE 2
#define CUDA_KNOWN_BYTES 3
#define CUDA_KNOWN_DIRECTION 4
#define CUDA_KNOWN_RESULT 5
#define CUDA_KNOWN_NCCL 6
#define CUDA_KNOWN_HANDLE 7
#define CUDA_KNOWN_ADDRESS 8
#define CUDA_KNOWN_DURATION 9
/* Of calls that wait for the device, or ask about it. */
#define CUDA_KNOWN_WOKEN 10	/* seen_ns: their thread slept, and was woken then */
#define CUDA_KNOWN_SPUN 11	/* seen_ns: it was on a CPU up to then, for a while */
#define CUDA_KNOWN_NOT_READY 12	/* seen_ns: the query before found the work unfinished */
#define CUDA_KNOWN_RECORDED 13	/* bytes: when the record of their event began */

struct cuda_event {
	struct event_head head;
	__u16 op DOC("launch, memcpy, memset, alloc, free, sync, graph_launch, ...") AS("enum:cuda_op");
	__u16 api DOC("the outermost probed function") AS("function");
	/* The function whose arguments these are: the innermost. */
	__u16 function;
	__u16 known;
	__u64 handle DOC("the kernel, demangled; [memcpy HtoD], [alloc], ... for the rest")
		COLUMN("kernel_name") AS("kernel");
	__u64 duration_ns DOC("the call on the host, from entry to return") KNOWN(CUDA_KNOWN_DURATION);
	DERIVED(gpu_ns) DOC("device time, if the application's own CUDA events timed this operation")
		AS("null:int64");
	DERIVED(gpu_ns_source) DOC("elapsed, or imported from a profiler's file, if gpu_ns is known") AS("null:string");
	DERIVED(gpu) DOC("UUID of the GPU, else its device file if only one is open") AS("gpu");
	__u64 context DOC("CUDA context of the calling thread") KNOWN(CUDA_KNOWN_CONTEXT);
	__u64 stream DOC("CUDA stream; 0 is the default stream") KNOWN(CUDA_KNOWN_STREAM);
	__u32 grid_x DOC("blocks in the grid, x") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 grid_y DOC("blocks in the grid, y") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 grid_z DOC("blocks in the grid, z") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 block_x DOC("threads in a block, x") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 block_y DOC("threads in a block, y") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 block_z DOC("threads in a block, z") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 shared_bytes DOC("dynamic shared memory of a block") KNOWN(CUDA_KNOWN_SHAPE);
	__u32 lane;		/* where its stream is counted, while it is; see cuda/timing.bpf.h */
	__u64 bytes DOC("bytes copied, set, allocated or freed") KNOWN(CUDA_KNOWN_BYTES);
	__u32 direction DOC("HtoD, DtoH, DtoD or HtoH") AS("enum:cuda_direction")
		KNOWN(CUDA_KNOWN_DIRECTION);
	__s32 result DOC("CUresult or cudaError_t; NULL if the call never returned")
		KNOWN(CUDA_KNOWN_RESULT);
	__u32 nccl DOC("the NCCL operation that launched it") COLUMN("nccl_op") AS("enum:nccl_op")
		KNOWN(CUDA_KNOWN_NCCL);
	DERIVED(graph) DOC("the CUDA graph launched; joins graph_kernels") AS("graph");
	__u32 weight DOC("how many events this row stands for");
	/* What the call is about besides: memory allocated, freed, copied to; an event. */
	union {
		__u64 address;
		__u64 seen_ns;	/* once the call has returned, if it waited */
	};
	/* The caller's own handle of the kernel, where the runtime was given one. */
	__u64 stub;
};

enum nccl_op {
	NCCL_OP_AllReduce = 1,
	NCCL_OP_Reduce = 2,
	NCCL_OP_Broadcast = 3,
	NCCL_OP_AllGather = 4,
	NCCL_OP_ReduceScatter = 5,
	NCCL_OP_AlltoAll = 6,
	NCCL_OP_Gather = 7,
	NCCL_OP_Scatter = 8,
	NCCL_OP_Send = 9,
	NCCL_OP_Recv = 10,
	NCCL_OP_PutSignal = 11,
	NCCL_OP_GroupEnd = 12,
	NCCL_OP_GroupStart = 13,
	NCCL_OP_CommInitRank = 14,
	NCCL_OP_CommInitRankConfig = 15,
	NCCL_OP_CommInitRankScalable = 16,
	NCCL_OP_CommInitAll = 17,
	NCCL_OP_CommSplit = 18,
	NCCL_OP_CommShrink = 19,
	NCCL_OP_CommGrow = 20,
	NCCL_OP_CommFinalize = 21,
	NCCL_OP_CommDestroy = 22,
	NCCL_OP_CommAbort = 23,
	NCCL_OP_CommRevoke = 24,
	NCCL_OP_Signal = 25,
	NCCL_OP_WaitSignal = 26,
	NCCL_OP_CommSuspend = 27,
	NCCL_OP_CommResume = 28,
	NCCL_OP_CommRegister = 29,
	NCCL_OP_CommDeregister = 30,
	NCCL_OP_CommWindowRegister = 31,
	NCCL_OP_CommWindowDeregister = 32,
	NCCL_OP_DevCommCreate = 33,
	NCCL_OP_DevCommDestroy = 34,
};

/* As in ncclDataType_t. */
enum nccl_datatype {
	NCCL_DATATYPE_int8 = 0,
	NCCL_DATATYPE_uint8 = 1,
	NCCL_DATATYPE_int32 = 2,
	NCCL_DATATYPE_uint32 = 3,
	NCCL_DATATYPE_int64 = 4,
	NCCL_DATATYPE_uint64 = 5,
	NCCL_DATATYPE_float16 = 6,
	NCCL_DATATYPE_float32 = 7,
	NCCL_DATATYPE_float64 = 8,
	NCCL_DATATYPE_bfloat16 = 9,
	NCCL_DATATYPE_float8e4m3 = 10,
	NCCL_DATATYPE_float8e5m2 = 11,
};

/* As in ncclRedOp_t; what the user made comes after. */
enum nccl_reduce_op {
	NCCL_REDUCE_OP_sum = 0,
	NCCL_REDUCE_OP_prod = 1,
	NCCL_REDUCE_OP_max = 2,
	NCCL_REDUCE_OP_min = 3,
	NCCL_REDUCE_OP_avg = 4,
};

#define NCCL_KNOWN_BYTES 0
#define NCCL_KNOWN_DATATYPE 1
#define NCCL_KNOWN_REDUCE_OP 2
#define NCCL_KNOWN_PEER 3
#define NCCL_KNOWN_ROOT 4
#define NCCL_KNOWN_COMM 5
#define NCCL_KNOWN_STREAM 6
#define NCCL_KNOWN_GROUP 7
#define NCCL_KNOWN_RESULT 8
#define NCCL_KNOWN_DURATION 9

struct nccl_event {
	struct event_head head;
	__u16 op DOC("AllReduce, Broadcast, Send, GroupEnd, ...") AS("enum:nccl_op");
	__u16 api DOC("the outermost probed function") AS("function");
	__u16 function;
	__u16 known;
	__u64 duration_ns DOC("the call on the host, from entry to return") KNOWN(NCCL_KNOWN_DURATION);
	__u64 bytes DOC("bytes; all ranks' parts of AllGather, ReduceScatter, AlltoAll")
		AS("nccl_bytes") KNOWN(NCCL_KNOWN_BYTES);
	__u32 datatype DOC("type of one element") AS("enum:nccl_datatype") KNOWN(NCCL_KNOWN_DATATYPE);
	__u32 reduce_op DOC("sum, prod, max, min, avg") AS("enum:nccl_reduce_op")
		KNOWN(NCCL_KNOWN_REDUCE_OP);
	__s32 peer DOC("the other rank of a send or receive") KNOWN(NCCL_KNOWN_PEER);
	__s32 root DOC("the root rank of a rooted collective") KNOWN(NCCL_KNOWN_ROOT);
	/* The communicator's address in its process. */
	__u64 communicator DOC("the communicator, the same on every rank") COLUMN("comm_hash")
		AS("comm:hash") KNOWN(NCCL_KNOWN_COMM);
	DERIVED(comm_name) DOC("the communicator's name, if the application set one")
		AS("comm:name");
	DERIVED(rank) DOC("rank in the communicator") AS("comm:rank");
	DERIVED(nranks) DOC("ranks in the communicator") AS("comm:nranks");
	__u64 stream DOC("CUDA stream") KNOWN(NCCL_KNOWN_STREAM);
	__u64 group_id DOC("the calls of one group share it") KNOWN(NCCL_KNOWN_GROUP);
	__s32 result DOC("ncclResult_t; NULL if the call never returned") KNOWN(NCCL_KNOWN_RESULT);
	__u32 weight DOC("how many events this row stands for");
};

_Static_assert(sizeof(struct event_head) == 64, "event_head has holes");
_Static_assert(sizeof(struct cuda_event) == 64 + 112, "cuda_event has holes");
_Static_assert(sizeof(struct nccl_event) == 64 + 72, "nccl_event has holes");

#include "common/kernel_event.h"

#endif /* COTENANT_EVENT_H */
