// SPDX-License-Identifier: Apache-2.0
/* Streams and events. */
#include "runtime.h"

EXPORT cudaError_t cudaStreamCreate(CUstream *out)
{
	BEGIN("stream");
	FINISH(driver[0].cuStreamCreate(out, 0));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(CUstream *out, unsigned flags)
{
	BEGIN("stream");
	FINISH(driver[0].cuStreamCreate(out, flags));
}

EXPORT cudaError_t cudaStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
	BEGIN("stream");
	FINISH(driver[0].cuStreamCreateWithPriority(out, flags, priority));
}

EXPORT cudaError_t cudaStreamDestroy(CUstream stream)
{
	BEGIN("stream");
	FINISH(driver[0].cuStreamDestroy(stream));
}

ON_STREAM(cudaStreamSynchronize, "sync", (CUstream stream), d->cuStreamSynchronize(stream))
ON_STREAM(cudaStreamQuery, "query", (CUstream stream), d->cuStreamQuery(stream))
ON_STREAM(cudaStreamWaitEvent, "wait", (CUstream stream, CUevent event, unsigned flags),
	  d->cuStreamWaitEvent(stream, event, flags))
ON_STREAM(cudaStreamGetFlags, NULL, (CUstream stream, unsigned *flags),
	  d->cuStreamGetFlags(stream, flags))
ON_STREAM(cudaStreamGetPriority, NULL, (CUstream stream, int *priority),
	  d->cuStreamGetPriority(stream, priority))

EXPORT cudaError_t cudaEventCreate(CUevent *out)
{
	BEGIN("event");
	FINISH(driver[0].cuEventCreate(out, 0));
}

EXPORT cudaError_t cudaEventCreateWithFlags(CUevent *out, unsigned flags)
{
	BEGIN("event");
	FINISH(driver[0].cuEventCreate(out, flags));
}

EXPORT cudaError_t cudaEventDestroy(CUevent event)
{
	BEGIN("event");
	FINISH(driver[0].cuEventDestroy(event));
}

ON_STREAM(cudaEventRecord, "event_record", (CUevent event, CUstream stream),
	  d->cuEventRecord(event, stream))
ON_STREAM(cudaEventRecordWithFlags, "event_record",
	  (CUevent event, CUstream stream, unsigned flags),
	  d->cuEventRecordWithFlags(event, stream, flags))

EXPORT cudaError_t cudaEventQuery(CUevent event)
{
	BEGIN("query");
	FINISH(driver[0].cuEventQuery(event));
}

EXPORT cudaError_t cudaEventSynchronize(CUevent event)
{
	BEGIN("sync");
	FINISH(driver[0].cuEventSynchronize(event));
}

EXPORT cudaError_t cudaEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	BEGIN("elapsed");
	FINISH(driver[0].cuEventElapsedTime(ms, start, end));
}
