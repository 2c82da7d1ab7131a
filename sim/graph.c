// SPDX-License-Identifier: Apache-2.0
/* Capturing, and running what was captured: node after node, in the order they were added. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "queue.h"

struct graph_node *graph_add(struct graph *graph, const struct capture_op *op)
{
	struct graph_node *node = arena_new(&graph_nodes);

	if (!node)
		return NULL;
	node->op = *op;
	node->graph = graph;
	*(graph->first ? &graph->last->next : &graph->first) = node;
	graph->last = node;
	graph->nodes++;
	return node;
}

bool graph_captures(struct stream *stream, const struct capture_op *op, struct truth *rec)
{
	struct thread *thread = self();
	struct capture_op kept = *op;

	if (!stream->capture)
		return false;
	if (thread->gate) {
		/* The ranks have counted this collective; on replay it does not wait. */
		gate_post(thread->gate, now_ns());
		kept.work = thread->gate->work;
		kept.nccl = thread->nccl_op;
		thread->gate = NULL;
		thread->nccl_op = NULL;
	}
	stream->capture_last = graph_add(stream->capture, &kept);
	if (rec) {
		rec->graph = (uint64_t)stream->capture;
		rec->has |= HAS_CAPTURED | HAS_GRAPH;
	}
	return true;
}

static double op_work(const struct capture_op *op)
{
	if (op->work > 0)
		return op->work;
	switch (op->kind) {
	case NODE_KERNEL: return kernel_work(op->function, op->grid, op->block);
	case NODE_MEMCPY:
	case NODE_MEMSET: return copy_work(op->bytes, op->direction);
	default: return 0;
	}
}

static struct truth *op_record(const struct graph_exec *exec, const struct capture_op *op)
{
	static const char *const kinds[] = { "graph_kernel", "graph_memcpy", "graph_memset" };
	struct truth *rec;

	if (op->kind > NODE_MEMSET)
		return NULL;
	rec = truth_begin("cuGraphLaunch", kinds[op->kind]);
	if (!rec)
		return NULL;
	note_graph(rec, op->function, exec->graph);
	rec->has |= HAS_NO_CALL;
	if (op->kind == NODE_KERNEL) {
		rec->kernel = op->function->name;
		memcpy(rec->grid, op->grid, sizeof(rec->grid));
		memcpy(rec->block, op->block, sizeof(rec->block));
		rec->shared_bytes = op->shared_bytes;
		rec->nccl = op->nccl;
		rec->has |= HAS_SHAPE;
	} else {
		rec->bytes = op->bytes;
		rec->direction = op->direction;
		rec->has |= HAS_BYTES;
	}
	return rec;
}

/* The launch lasts from the start of its first node to the end of its last. */
static void cover(struct truth *whole, const struct truth *part)
{
	if (!whole || !part || !(part->has & HAS_DEVICE) || part->pending)
		return;
	if (!(whole->has & HAS_DEVICE)) {
		whole->has |= HAS_DEVICE | (part->has & HAS_START);
		whole->gpu = part->gpu;
		whole->start = part->start;
		whole->device_start = part->device_start;
	}
	whole->end = part->end;
}

CUresult exec_run(struct graph_exec *exec, struct stream *stream, struct truth *rec)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < exec->count && result == CUDA_SUCCESS; i++) {
		struct exec_op *e = &exec->ops[i];
		struct truth *part;

		if (e->disabled)
			continue;
		if (e->op.kind == NODE_HOST) {
			result = host_func_submit(stream, e->op.host, e->op.host_data, NULL);
			continue;
		}
		if (e->op.kind == NODE_KERNEL && !arena_holds(&functions, e->op.function))
			return CUDA_ERROR_INVALID_HANDLE;
		part = op_record(exec, &e->op);
		result = queue_submit(stream, op_work(&e->op), part);
		cover(rec, part);
		truth_end(part, result);
	}
	return result;
}
