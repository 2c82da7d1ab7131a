/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "driver.h"

struct graph {
	struct object object;
	struct graph_node *first, *last;
	uint32_t nodes;
	bool broken; /* by a call that no capture allows */
};

struct graph_node {
	struct object object;
	struct graph *graph;
	struct graph_node *next;
	struct capture_op op;
};

/* What runs is a copy: the graph may change or go away. */
struct graph_exec {
	struct object object;
	struct graph *graph; /* it was made from; only its address is used */
	uint32_t count;
	struct exec_op {
		const struct graph_node *node;
		struct capture_op op;
		bool disabled;
	} *ops;
};

struct host_params {
	void (*function)(void *);
	void *data;
};

struct node_params {
	int type, unused[3];
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMSET_NODE_PARAMS memset;
		struct host_params host;
		long long bytes[29];
	};
	long long last;
};
_Static_assert(sizeof(struct node_params) == 256, "CUgraphNodeParams");

/* What the parameters of a node describe; `known`: they go on to a kernel handle. */
CUresult kernel_op(struct capture_op *op, const CUDA_KERNEL_NODE_PARAMS *params, bool known);
CUresult node_op(struct capture_op *op, const struct node_params *params);

struct graph_node *graph_add(struct graph *graph, const struct capture_op *op);
CUresult exec_run(struct graph_exec *exec, struct stream *stream, struct truth *rec);

static inline void note_graph(struct truth *rec, const void *handle, const struct graph *graph)
{
	if (rec) {
		rec->handle = (uint64_t)handle;
		rec->graph = (uint64_t)graph;
		rec->has |= HAS_HANDLE | HAS_GRAPH;
	}
}

#endif
