/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in runtime and NCCL libraries share with the stand-in driver and
 * nobody else. They get it the way the real ones get theirs: cuGetExportTable.
 */
#ifndef SIM_PRIVATE_H
#define SIM_PRIVATE_H

#include <stdatomic.h>
#include <stdint.h>

static const char PRIVATE_TABLE_ID[16] = "cotenant-sim-v1";

/* Where several ranks meet, in memory they share; it is used again and never reset. */
struct gate_slot {
	_Atomic uint32_t arrived; /* ever */
	uint32_t unused;
	_Atomic int64_t latest; /* when the last to arrive was there */
};

#define GATE_SLOTS 64

/* A kernel behind a gate begins to move data once every slot is complete. */
struct gate {
	int slots;
	struct gate_slot *slot[GATE_SLOTS];
	uint32_t needed[GATE_SLOTS]; /* arrivals that complete it */
	const _Atomic uint32_t *aborted;
	double work; /* nanoseconds once all are there */
};

/* An NCCL call, for the log; a negative number or NULL is left out. */
struct nccl_record {
	const char *api, *op;
	int64_t t_begin, t_end;
	int64_t bytes, count, group;
	int datatype, reduce_op, root, peer, rank, nranks, result;
	uint64_t comm, comm_hash, stream;
};

/* A call that is no operation on data: -1 is what it does not have. */
static inline struct nccl_record nccl_record_blank(const char *api, const char *op, int64_t began,
						   int result)
{
	return (struct nccl_record){ .api = api,
				     .op = op,
				     .t_begin = began,
				     .bytes = -1,
				     .count = -1,
				     .group = -1,
				     .datatype = -1,
				     .reduce_op = -1,
				     .root = -1,
				     .peer = -1,
				     .rank = -1,
				     .nranks = -1,
				     .result = result };
}

struct private_table {
	uint64_t size;
	/* Between these, driver calls of this thread belong to an outer call. */
	void (*outer_begin)(const char *api, const char *op);
	int (*outer_end)(int result);
	/* The next launch on this thread runs behind this gate, for this operation. */
	void (*gate_next_launch)(const struct gate *gate, const char *nccl_op);
	void (*log_nccl)(const struct nccl_record *call);
	int64_t (*now)(void);
};

#endif
