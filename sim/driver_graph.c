// SPDX-License-Identifier: Apache-2.0
/* Graphs and their nodes. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

ARENA(graphs, graph, 1 << 14);
ARENA(graph_nodes, graph_node, 1 << 18);

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
	CALL("graph");
	(void)flags;
	if (!out || !(*out = arena_new(&graphs)))
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	note_graph(rec, *out, *out);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	CALL("graph");
	struct graph_node *node, *next;

	note_graph(rec, graph, graph);
	if (!arena_holds(&graphs, graph))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	for (node = graph->first; node; node = next) {
		next = node->next;
		arena_free(&graph_nodes, node);
	}
	arena_free(&graphs, graph);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph graph)
{
	CALL("graph");
	if (!arena_holds(&graphs, graph) || !(*out = arena_new(&graphs)))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	for (struct graph_node *node = graph->first; node; node = node->next)
		graph_add(*out, &node->op);
	note_graph(rec, *out, *out);
	DONE(CUDA_SUCCESS);
}

static CUresult add(struct truth *rec, CUgraphNode *out, CUgraph graph, const struct capture_op *op)
{
	if (!arena_holds(&graphs, graph))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = graph_add(graph, op);
	note_graph(rec, *out, graph);
	if (rec && op->function)
		rec->kernel = op->function->name;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult kernel_op(struct capture_op *op, const CUDA_KERNEL_NODE_PARAMS *params, bool known)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	op->kind = NODE_KERNEL;
	op->function = params->function ? params->function : known ? params->kernel : NULL;
	memcpy(op->grid, params->grid, sizeof(op->grid));
	memcpy(op->block, params->block, sizeof(op->block));
	op->shared_bytes = params->shared_bytes;
	return arena_holds(&functions, op->function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult add_kernel(struct truth *rec, CUgraphNode *out, CUgraph graph,
			   const CUDA_KERNEL_NODE_PARAMS *params, bool known)
{
	struct capture_op op = { 0 };
	CUresult result = kernel_op(&op, params, known);

	return result ? result : add(rec, out, graph, &op);
}

#define NODE_PARAMS CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n

EXPORT CUresult cuGraphAddKernelNode(NODE_PARAMS, const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	(void)after;
	(void)n;
	DONE(add_kernel(rec, out, graph, params, false));
}

EXPORT CUresult cuGraphAddKernelNode_v2(NODE_PARAMS, const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	(void)after;
	(void)n;
	DONE(add_kernel(rec, out, graph, params, true));
}

EXPORT CUresult cuGraphAddMemcpyNode(NODE_PARAMS, const CUDA_MEMCPY3D *copy, CUcontext context)
{
	CALL("graph");
	struct capture_op op = { .kind = NODE_MEMCPY };

	(void)after;
	(void)n;
	(void)context;
	if (!copy)
		DONE(CUDA_ERROR_INVALID_VALUE);
	op.bytes = copy->width * copy->height * copy->depth;
	op.dst = copy->dst_type == MEMORY_HOST ? (uint64_t)copy->dst_host : copy->dst_device;
	op.src = copy->src_type == MEMORY_HOST ? (uint64_t)copy->src_host : copy->src_device;
	op.direction = copy_direction(op.dst, op.src);
	DONE(add(rec, out, graph, &op));
}

EXPORT CUresult cuGraphAddMemsetNode(NODE_PARAMS, const CUDA_MEMSET_NODE_PARAMS *fill,
				     CUcontext context)
{
	CALL("graph");
	struct capture_op op = { .kind = NODE_MEMSET };

	(void)after;
	(void)n;
	(void)context;
	if (!fill)
		DONE(CUDA_ERROR_INVALID_VALUE);
	op.dst = fill->dst;
	op.bytes = fill->width * fill->height * fill->element_bytes;
	DONE(add(rec, out, graph, &op));
}

EXPORT CUresult cuGraphAddHostNode(NODE_PARAMS, const struct host_params *params)
{
	CALL("graph");
	struct capture_op op = { .kind = NODE_HOST };

	(void)after;
	(void)n;
	if (!params)
		DONE(CUDA_ERROR_INVALID_VALUE);
	op.host = params->function;
	op.host_data = params->data;
	DONE(add(rec, out, graph, &op));
}

EXPORT CUresult cuGraphAddEmptyNode(NODE_PARAMS)
{
	CALL("graph");
	(void)after;
	(void)n;
	DONE(add(rec, out, graph, &(struct capture_op){ .kind = NODE_EMPTY }));
}

EXPORT CUresult cuGraphAddChildGraphNode(NODE_PARAMS, CUgraph child)
{
	CALL("graph");
	struct capture_op op = { .kind = NODE_GRAPH };

	(void)after;
	(void)n;
	if (!arena_holds(&graphs, child))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	op.child = child;
	DONE(add(rec, out, graph, &op));
}

CUresult node_op(struct capture_op *op, const struct node_params *p)
{
	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	*op = (struct capture_op){ .kind = NODE_EMPTY };
	switch (p->type) {
	case NODE_KERNEL: return kernel_op(op, &p->kernel, true);
	case NODE_MEMSET:
		op->kind = NODE_MEMSET;
		op->dst = p->memset.dst;
		op->bytes = p->memset.width * p->memset.height * p->memset.element_bytes;
		return CUDA_SUCCESS;
	case NODE_HOST:
		op->kind = NODE_HOST;
		op->host = p->host.function;
		op->host_data = p->host.data;
		return CUDA_SUCCESS;
	default: return CUDA_SUCCESS;
	}
}

static CUresult add_node(struct truth *rec, CUgraphNode *out, CUgraph graph,
			 const struct node_params *params)
{
	struct capture_op op;
	CUresult result = node_op(&op, params);

	return result ? result : add(rec, out, graph, &op);
}

EXPORT CUresult cuGraphAddNode(NODE_PARAMS, struct node_params *params)
{
	CALL("graph");
	(void)after;
	(void)n;
	DONE(add_node(rec, out, graph, params));
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
				  const void *edges, size_t n, struct node_params *params)
{
	CALL("graph");
	(void)after;
	(void)edges;
	(void)n;
	DONE(add_node(rec, out, graph, params));
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
					  const CUgraphNode *to, const void *edges, size_t n)
{
	(void)from;
	(void)to;
	(void)edges;
	(void)n;
	return arena_holds(&graphs, graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	size_t n = 0;

	if (!arena_holds(&graphs, graph))
		return CUDA_ERROR_INVALID_HANDLE;
	for (struct graph_node *node = graph->first; nodes && node && n < *count; node = node->next)
		nodes[n++] = node;
	*count = nodes ? n : graph->nodes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
	if (!arena_holds(&graph_nodes, node))
		return CUDA_ERROR_INVALID_HANDLE;
	*type = node->op.kind;
	return CUDA_SUCCESS;
}

static CUresult set_params(struct truth *rec, CUgraphNode node,
			   const CUDA_KERNEL_NODE_PARAMS *params, bool known)
{
	struct capture_op op = { 0 };
	CUresult result;

	if (!arena_holds(&graph_nodes, node) || node->op.kind != NODE_KERNEL)
		return CUDA_ERROR_INVALID_HANDLE;
	result = kernel_op(&op, params, known);
	if (result == CUDA_SUCCESS)
		node->op = op;
	note_graph(rec, node, node->graph);
	return result;
}

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	DONE(set_params(rec, node, params, false));
}

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
					      const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	DONE(set_params(rec, node, params, true));
}

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
	if (!arena_holds(&graph_nodes, node) || node->op.kind != NODE_KERNEL)
		return CUDA_ERROR_INVALID_HANDLE;
	memset(params, 0, sizeof(*params));
	params->function = node->op.function;
	memcpy(params->grid, node->op.grid, sizeof(params->grid));
	memcpy(params->block, node->op.block, sizeof(params->block));
	params->shared_bytes = node->op.shared_bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, struct node_params *params)
{
	CALL("graph");
	struct capture_op op;
	CUresult result = node_op(&op, params);

	if (!arena_holds(&graph_nodes, node))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	if (result == CUDA_SUCCESS)
		node->op = op;
	note_graph(rec, node, node->graph);
	DONE(result);
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode node)
{
	CALL("graph");
	struct graph_node *before = NULL;

	if (!arena_holds(&graph_nodes, node))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	note_graph(rec, node, node->graph);
	for (struct graph_node *n = node->graph->first; n && n != node; n = n->next)
		before = n;
	*(before ? &before->next : &node->graph->first) = node->next;
	if (node->graph->last == node)
		node->graph->last = before;
	node->graph->nodes--;
	arena_free(&graph_nodes, node);
	DONE(CUDA_SUCCESS);
}
