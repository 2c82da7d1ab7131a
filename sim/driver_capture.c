// SPDX-License-Identifier: Apache-2.0
/* Stream capture. */
#include "graph.h"

static CUresult begin(struct truth *rec, CUstream handle, struct graph *graph, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);

	if (rec) {
		rec->stream = (uint64_t)handle;
		rec->has |= HAS_STREAM;
	}
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream == stream->context->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	stream->capture = graph ? graph : arena_new(&graphs);
	stream->capture_last = NULL;
	stream->capture_origin = true;
	note_graph(rec, stream->capture, stream->capture);
	return stream->capture ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	CALL("capture");
	DONE(begin(rec, stream, NULL, false));
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	CALL("capture");
	(void)mode;
	DONE(begin(rec, stream, NULL, false));
}

EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
	CALL("capture");
	(void)mode;
	DONE(begin(rec, stream, NULL, true));
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
					    const CUgraphNode *after, const void *edges, size_t n,
					    int mode)
{
	CALL("capture");
	(void)after;
	(void)edges;
	(void)n;
	(void)mode;
	if (!arena_holds(&graphs, graph))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	DONE(begin(rec, stream, graph, false));
}

EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
						 const CUgraphNode *after, const void *edges,
						 size_t n, int mode)
{
	CALL("capture");
	(void)after;
	(void)edges;
	(void)n;
	(void)mode;
	if (!arena_holds(&graphs, graph))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	DONE(begin(rec, stream, graph, true));
}

static CUresult end(struct truth *rec, CUstream handle, CUgraph *out, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread), *other = NULL;
	struct graph *graph = stream ? stream->capture : NULL;

	if (rec) {
		rec->stream = (uint64_t)handle;
		rec->has |= HAS_STREAM;
	}
	if (!graph)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (!stream->capture_origin)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	while ((other = arena_next(&streams, other)))
		if (other->capture == graph) {
			other->capture = NULL;
			other->capture_origin = false;
		}
	if (out)
		*out = graph->broken ? NULL : graph;
	note_graph(rec, graph, graph);
	return graph->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *out)
{
	CALL("capture");
	DONE(end(rec, stream, out, false));
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *out)
{
	CALL("capture");
	DONE(end(rec, stream, out, true));
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, int *status)
{
	struct stream *stream = stream_of(handle, false);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = stream->capture != NULL;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream handle, int *status)
{
	struct stream *stream = stream_of(handle, true);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = stream->capture != NULL;
	return CUDA_SUCCESS;
}

static CUresult info(CUstream handle, int *status, uint64_t *id, CUgraph *graph)
{
	struct stream *stream = stream_of(handle, false);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*status = stream->capture != NULL;
	if (id)
		*id = (uint64_t)stream->capture;
	if (graph)
		*graph = stream->capture;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream handle, int *status, uint64_t *id)
{
	return info(handle, status, id, NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int *status, uint64_t *id,
					  CUgraph *graph, const CUgraphNode **after, size_t *n)
{
	struct stream *stream = stream_of(handle, false);

	if (stream && after)
		*after = &stream->capture_last;
	if (stream && n)
		*n = stream->capture_last != NULL;
	return info(handle, status, id, graph);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int *status, uint64_t *id,
					  CUgraph *graph, const CUgraphNode **after,
					  const void **edges, size_t *n)
{
	struct stream *stream = stream_of(handle, false);

	if (stream && after)
		*after = &stream->capture_last;
	if (edges)
		*edges = NULL;
	if (stream && n)
		*n = stream->capture_last != NULL;
	return info(handle, status, id, graph);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	struct thread *thread = self();
	int before = (int)thread->capture_mode;

	thread->capture_mode = (uint32_t)*mode;
	*mode = before;
	return CUDA_SUCCESS;
}
