// SPDX-License-Identifier: Apache-2.0
/* Streams and events. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "graph.h"

static void note_stream(struct truth *rec, CUstream handle)
{
	if (rec) {
		rec->stream = (uint64_t)handle;
		rec->has |= HAS_STREAM;
	}
}

static void note_handle(struct truth *rec, const void *handle)
{
	if (rec) {
		rec->handle = (uint64_t)handle;
		rec->has |= HAS_HANDLE;
	}
}

static CUresult create(struct truth *rec, CUstream *out, unsigned flags, int priority)
{
	struct context *context = context_current();

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = stream_new(context, flags, priority);
	note_handle(rec, *out);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags)
{
	CALL("stream");
	DONE(create(rec, out, flags, 0));
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	CALL("stream");
	DONE(create(rec, out, flags, priority));
}

EXPORT CUresult cuGreenCtxStreamCreate(CUstream *out, void *green, unsigned flags, int priority)
{
	CALL("stream");
	(void)green;
	DONE(create(rec, out, flags, priority));
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	CALL("stream");
	note_handle(rec, stream);
	if (!arena_holds(&streams, stream))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	while (stream->first) {
		struct moment last = queue_last(stream);

		queue_wait(stream->context->gpu, last);
		queue_release(last);
	}
	free(stream->ends);
	arena_free(&streams, stream);
	DONE(CUDA_SUCCESS);
}

static CUresult synchronize(struct truth *rec, CUstream handle, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);
	struct moment last;
	CUresult result;

	note_stream(rec, handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture) {
		stream->capture->broken = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	last = queue_last(stream);
	result = queue_wait(stream->context->gpu, last);
	queue_release(last);
	return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	CALL("sync");
	DONE(synchronize(rec, stream, false));
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	CALL("sync");
	DONE(synchronize(rec, stream, true));
}

static CUresult query(struct truth *rec, CUstream handle, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);
	struct moment last;
	bool ready;

	note_stream(rec, handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	last = queue_last(stream);
	ready = queue_ready(stream->context->gpu, last);
	queue_release(last);
	return ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
	CALL("query");
	DONE(query(rec, stream, false));
}

EXPORT CUresult cuStreamQuery_ptsz(CUstream stream)
{
	CALL("query");
	DONE(query(rec, stream, true));
}

static CUresult wait_event(struct truth *rec, CUstream handle, CUevent event, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);

	note_stream(rec, handle);
	note_handle(rec, event);
	if (!stream || !arena_holds(&events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture) {
		/* A stream joins the capture by waiting for an event of it. */
		stream->capture = event->capture;
		stream->capture_last = event->capture_last;
		return CUDA_SUCCESS;
	}
	if (!event->recorded || stream->context->gpu != event->context->gpu)
		return CUDA_SUCCESS;
	return event->time ? CUDA_SUCCESS : queue_stream_wait(stream, event->moment);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
	CALL("wait");
	(void)flags;
	DONE(wait_event(rec, stream, event, false));
}

EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned flags)
{
	CALL("wait");
	(void)flags;
	DONE(wait_event(rec, stream, event, true));
}

static CUresult stream_flags(CUstream handle, unsigned *flags, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned *flags)
{
	return stream_flags(stream, flags, false);
}

EXPORT CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned *flags)
{
	return stream_flags(stream, flags, true);
}

EXPORT CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
	struct stream *stream = stream_of(handle, false);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
	struct stream *stream = stream_of(handle, false);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*context = stream->context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	CALL("event");
	struct context *context = context_current();

	if (!context)
		DONE(CUDA_ERROR_INVALID_CONTEXT);
	if (!out || !(*out = arena_new(&events)))
		DONE(CUDA_ERROR_OUT_OF_MEMORY);
	(*out)->context = context;
	(*out)->flags = flags;
	note_handle(rec, *out);
	DONE(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	CALL("event");
	note_handle(rec, event);
	if (!arena_holds(&events, event))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	queue_release(event->moment);
	arena_free(&events, event);
	DONE(CUDA_SUCCESS);
}

static CUresult record(struct truth *rec, CUevent event, CUstream handle, bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);
	struct gpu *gpu;

	note_stream(rec, handle);
	note_handle(rec, event);
	if (!stream || !arena_holds(&events, event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture) {
		event->capture = stream->capture;
		event->capture_last = stream->capture_last;
		return CUDA_SUCCESS;
	}
	gpu = stream->context->gpu;
	queue_release(event->moment);
	event->capture = NULL;
	event->context = stream->context;
	event->moment = queue_last(stream);
	event->time = queue_ready(gpu, event->moment) ? now_ns() : 0;
	event->recorded = true;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CALL("event_record");
	DONE(record(rec, event, stream, false));
}

EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	CALL("event_record");
	DONE(record(rec, event, stream, true));
}

EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
	CALL("event_record");
	(void)flags;
	DONE(record(rec, event, stream, false));
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags)
{
	CALL("event_record");
	(void)flags;
	DONE(record(rec, event, stream, true));
}

/* When it happened; the work clock's history is finite, so it is kept. */
static int64_t happened(struct event *event)
{
	if (!event->time && queue_ready(event->context->gpu, event->moment))
		event->time = queue_time(event->context->gpu, event->moment);
	return event->time;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
	CALL("query");
	note_handle(rec, event);
	if (!arena_holds(&events, event))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	DONE(!event->recorded || happened(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	CALL("sync");
	note_handle(rec, event);
	if (!arena_holds(&events, event))
		DONE(CUDA_ERROR_INVALID_HANDLE);
	if (event->recorded && !event->time)
		queue_wait(event->context->gpu, event->moment);
	if (event->recorded)
		happened(event);
	DONE(CUDA_SUCCESS);
}

static CUresult elapsed(struct truth *rec, float *ms, CUevent start, CUevent end)
{
	if (!arena_holds(&events, start) || !arena_holds(&events, end) || !start->recorded ||
	    !end->recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((start->flags | end->flags) & 2) /* made without timing */
		return CUDA_ERROR_INVALID_HANDLE;
	if (!happened(start) || !happened(end))
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(end->time - start->time) / 1e6);
	if (rec) {
		rec->elapsed_ms = *ms;
		rec->has |= HAS_ELAPSED;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	CALL("elapsed");
	DONE(elapsed(rec, ms, start, end));
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	CALL("elapsed");
	DONE(elapsed(rec, ms, start, end));
}
