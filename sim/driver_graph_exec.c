// SPDX-License-Identifier: Apache-2.0
/* Instantiated graphs: made, updated, launched. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

ARENA(graph_execs, graph_exec, 1 << 14);

static uint32_t count_ops(const struct graph *graph)
{
	uint32_t n = 0;

	for (const struct graph_node *node = graph->first; node; node = node->next)
		n += node->op.kind == NODE_GRAPH ? count_ops(node->op.child) : 1;
	return n;
}

static struct exec_op *copy_ops(struct exec_op *at, const struct graph *graph)
{
	for (const struct graph_node *node = graph->first; node; node = node->next) {
		if (node->op.kind == NODE_GRAPH)
			at = copy_ops(at, node->op.child);
		else
			*at++ = (struct exec_op){ node, node->op, false };
	}
	return at;
}

static CUresult fill(struct graph_exec *exec, struct graph *graph)
{
	uint32_t n = count_ops(graph);
	struct exec_op *ops = calloc(n ? n : 1, sizeof(*ops));

	if (!ops)
		return CUDA_ERROR_OUT_OF_MEMORY;
	copy_ops(ops, graph);
	free(exec->ops);
	exec->ops = ops;
	exec->count = n;
	return CUDA_SUCCESS;
}

static CUresult instantiate(struct truth *rec, CUgraphExec *out, CUgraph graph)
{
	if (!arena_holds(&graphs, graph))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!out || !(*out = arena_new(&graph_execs)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*out)->graph = graph;
	note_graph(rec, *out, graph);
	return fill(*out, graph);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *failed, char *log,
				   size_t bytes)
{
	CALL("graph");
	(void)failed;
	(void)log;
	(void)bytes;
	DONE(instantiate(rec, out, graph));
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *failed,
				      char *log, size_t bytes)
{
	CALL("graph");
	(void)failed;
	(void)log;
	(void)bytes;
	DONE(instantiate(rec, out, graph));
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
					    unsigned long long flags)
{
	CALL("graph");
	(void)flags;
	DONE(instantiate(rec, out, graph));
}

struct instantiate_params {
	uint64_t flags;
	CUstream upload;
	CUgraphNode failed;
	int result;
};

static CUresult instantiate_params(struct truth *rec, CUgraphExec *out, CUgraph graph,
				   struct instantiate_params *params)
{
	CUresult result = instantiate(rec, out, graph);

	if (params)
		params->result = result != CUDA_SUCCESS;
	return result;
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
					     struct instantiate_params *params)
{
	CALL("graph");
	DONE(instantiate_params(rec, out, graph, params));
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
						  struct instantiate_params *params)
{
	CALL("graph");
	DONE(instantiate_params(rec, out, graph, params));
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	CALL("graph");
	if (!arena_holds(&graph_execs, exec))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	note_graph(rec, exec, exec->graph);
	free(exec->ops);
	arena_free(&graph_execs, exec);
	DONE(CUDA_SUCCESS);
}

static CUresult update(struct truth *rec, CUgraphExec exec, CUgraph graph)
{
	if (!arena_holds(&graph_execs, exec) || !arena_holds(&graphs, graph))
		return CUDA_ERROR_INVALID_HANDLE;
	note_graph(rec, exec, graph);
	if (count_ops(graph) != exec->count)
		return 910; /* the update would change the topology */
	exec->graph = graph;
	return fill(exec, graph);
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *failed,
				  int *outcome)
{
	CALL("graph");
	CUresult result = update(rec, exec, graph);

	if (failed)
		*failed = NULL;
	if (outcome)
		*outcome = result ? 1 : 0;
	DONE(result);
}

struct update_info {
	int result;
	CUgraphNode node, from;
};

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, struct update_info *info)
{
	CALL("graph");
	CUresult result = update(rec, exec, graph);

	if (info)
		*info = (struct update_info){ result ? 1 : 0, NULL, NULL };
	DONE(result);
}

static struct exec_op *op_of(CUgraphExec exec, const struct graph_node *node)
{
	if (!arena_holds(&graph_execs, exec))
		return NULL;
	for (uint32_t i = 0; i < exec->count; i++)
		if (exec->ops[i].node == node)
			return &exec->ops[i];
	return NULL;
}

static CUresult set_params(struct truth *rec, CUgraphExec exec, CUgraphNode node,
			   const CUDA_KERNEL_NODE_PARAMS *params, bool known)
{
	struct exec_op *e = op_of(exec, node);
	CUfunction function;

	if (!e || !params || e->op.kind != NODE_KERNEL)
		return CUDA_ERROR_INVALID_HANDLE;
	function = params->function ? params->function : known ? params->kernel : NULL;
	if (!arena_holds(&functions, function))
		return CUDA_ERROR_INVALID_HANDLE;
	note_graph(rec, exec, exec->graph);
	if (rec)
		rec->kernel = function->name;
	e->op.function = function;
	memcpy(e->op.grid, params->grid, sizeof(e->op.grid));
	memcpy(e->op.block, params->block, sizeof(e->op.block));
	e->op.shared_bytes = params->shared_bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
					       const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	DONE(set_params(rec, exec, node, params, false));
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
						  const CUDA_KERNEL_NODE_PARAMS *params)
{
	CALL("graph");
	DONE(set_params(rec, exec, node, params, true));
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
					 struct node_params *params)
{
	CALL("graph");
	struct exec_op *e = op_of(exec, node);
	struct capture_op op;
	CUresult result = node_op(&op, params);

	if (!e)
		DONE(CUDA_ERROR_INVALID_HANDLE);
	if (result == CUDA_SUCCESS)
		e->op = op;
	note_graph(rec, exec, exec->graph);
	DONE(result);
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
	struct exec_op *e = op_of(exec, node);

	if (!e)
		return CUDA_ERROR_INVALID_HANDLE;
	e->disabled = !enabled;
	return CUDA_SUCCESS;
}

static CUresult launch(struct truth *rec, CUgraphExec exec, CUstream handle, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);

	if (rec) {
		rec->stream = (uint64_t)handle;
		rec->handle = (uint64_t)exec;
		rec->has |= HAS_STREAM | HAS_HANDLE;
	}
	if (!stream || !arena_holds(&graph_execs, exec))
		return CUDA_ERROR_INVALID_HANDLE;
	note_graph(rec, exec, exec->graph);
	return exec_run(exec, stream, rec);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CALL("graph_launch");
	DONE(launch(rec, exec, stream, false));
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	CALL("graph_launch");
	DONE(launch(rec, exec, stream, true));
}

EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	(void)stream;
	return arena_holds(&graph_execs, exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
	(void)stream;
	return arena_holds(&graph_execs, exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
