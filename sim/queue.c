// SPDX-License-Identifier: Apache-2.0
/* Streams on the work clock: an operation has its place from the moment it is submitted. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>

#include "queue.h"

#define SPIN_NS 10000
#define GLANCE_NS 2000 /* between two looks of a thread that spins */

/* As with CU_CTX_SCHED_SPIN, which is what drivers do unless there are more contexts than CPUs. */
static bool spins(void)
{
	static _Atomic int known = -1;

	if (known < 0)
		known = env_number("COTENANT_SIM_SPIN", 0) != 0;
	return known;
}

static void spin_until(int64_t time)
{
	while (now_ns() < time)
		;
}

static void sleep_until(int64_t time)
{
	struct timespec at = { time / 1000000000LL, time % 1000000000LL };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
		;
}

double stream_free(const struct stream *stream)
{
	const struct context *context = stream->context;

	if (stream == context->legacy)
		return fmax(stream->busy, context->blocking_busy);
	if (!(stream->flags & STREAM_NON_BLOCKING))
		return fmax(stream->busy, context->legacy->busy);
	return stream->busy;
}

void stream_busy(struct stream *stream, double end)
{
	struct context *context = stream->context;

	stream->busy = end;
	context->busy = fmax(context->busy, end);
	context->gpu->scheduled = fmax(context->gpu->scheduled, end);
	if (!(stream->flags & STREAM_NON_BLOCKING))
		context->blocking_busy = fmax(context->blocking_busy, end);
	if (!stream->ends)
		stream->ends = calloc(QUEUE_DEPTH, sizeof(*stream->ends));
	if (stream->ends)
		stream->ends[stream->queued++ % QUEUE_DEPTH] = end;
}

struct device *device_now(struct gpu *gpu)
{
	struct device *dev = shared_lock(gpu);

	device_advance(dev, now_ns());
	if (__builtin_expect(gpu->pending != 0, 0))
		pending_settle(dev, gpu);
	return dev;
}

static CUresult submit_pending(struct device *dev, struct stream *stream, double work,
			       struct truth *rec)
{
	struct gpu *gpu = stream->context->gpu;
	struct thread *thread = self();
	struct pending *p = pending_add(dev, stream, thread->gate ? thread->gate->work : work,
					thread->gate, NULL);

	if (rec) {
		rec->pending = p;
		rec->gpu = gpu;
		rec->has |= HAS_DEVICE;
		p->refs++;
	}
	/* Waiting for a peer occupies the device, as a spinning kernel does. */
	device_set_drained(dev, gpu->tenant, INFINITY);
	pending_settle(dev, gpu);
	shared_unlock(gpu);
	progress_start(gpu);
	return CUDA_SUCCESS;
}

/* Legacy-stream order against streams that have pending work. */
static bool must_wait(const struct stream *stream)
{
	if (stream->first || self()->gate)
		return true;
	if (!stream->context->pending || (stream->flags & STREAM_NON_BLOCKING))
		return false;
	return stream == stream->context->legacy || stream->context->legacy->first;
}

static void order_behind_pending(struct device *dev, struct stream *stream)
{
	struct stream *other = NULL;

	while ((other = arena_next(&streams, other)))
		if (other != stream && other->context == stream->context && other->last &&
		    !(other->flags & STREAM_NON_BLOCKING) &&
		    (stream == stream->context->legacy || other == stream->context->legacy))
			pending_add(dev, stream, 0, NULL, other->last);
}

CUresult queue_submit(struct stream *stream, double work, struct truth *rec)
{
	struct gpu *gpu = stream->context->gpu;
	struct device *dev = device_now(gpu);
	double start, end, clock;

	if (__builtin_expect(gpu->pending || self()->gate, 0) && must_wait(stream)) {
		if (!(stream->flags & STREAM_NON_BLOCKING))
			order_behind_pending(dev, stream);
		return submit_pending(dev, stream, work, rec);
	}
	/* A full queue makes the caller wait, as the hardware's does. */
	while (stream->ends &&
	       stream->ends[stream->queued % QUEUE_DEPTH] > device_work(dev, gpu->tenant)) {
		int64_t room = device_time_at(dev, gpu->tenant,
					      stream->ends[stream->queued % QUEUE_DEPTH]);

		shared_unlock(gpu);
		sleep_until(room);
		dev = device_now(gpu);
	}
	clock = device_work(dev, gpu->tenant);
	start = fmax(clock, stream_free(stream));
	end = device_submit(dev, gpu->tenant, dev->time, start, work);
	stream_busy(stream, end);
	if (__builtin_expect(rec != NULL, 0)) {
		/* Where tenants take turns, it may not be its turn. */
		rec->has |= HAS_DEVICE | (start == clock && !dev->slice ? HAS_START : 0);
		rec->device_start = dev->time;
		rec->start = start;
		rec->end = end;
		rec->gpu = gpu;
	}
	shared_unlock(gpu);
	return CUDA_SUCCESS;
}

/* The end of what is queued on the stream; release it when done with it. */
struct moment queue_last(struct stream *stream)
{
	struct gpu *gpu = stream->context->gpu;
	struct moment moment = { 0, NULL };

	device_now(gpu);
	if (stream->last) {
		moment.pending = stream->last;
		moment.pending->refs++;
	} else {
		moment.work = stream_free(stream);
	}
	shared_unlock(gpu);
	return moment;
}

void queue_release(struct moment moment)
{
	struct gpu *gpu;

	if (!moment.pending)
		return;
	gpu = moment.pending->stream->context->gpu;
	shared_lock(gpu);
	pending_drop(moment.pending);
	shared_unlock(gpu);
}

static bool reached(const struct device *dev, const struct gpu *gpu, const struct moment *moment)
{
	if (moment->pending && !moment->pending->done)
		return false;
	return device_work(dev, gpu->tenant) >=
	       (moment->pending ? moment->pending->end : moment->work);
}

bool queue_ready(struct gpu *gpu, struct moment moment)
{
	bool ready = reached(device_now(gpu), gpu, &moment);

	shared_unlock(gpu);
	return ready;
}

CUresult queue_wait(struct gpu *gpu, struct moment moment)
{
	for (;;) {
		struct device *dev = device_now(gpu);
		bool known = !moment.pending || moment.pending->done;
		struct gate_slot *slot = known ? NULL : closed_slot(gpu);
		int64_t now = dev->time, until = 0, wake = gpu->wake;

		if (reached(dev, gpu, &moment)) {
			shared_unlock(gpu);
			return CUDA_SUCCESS;
		}
		if (known)
			until = device_earliest(
				dev, gpu->tenant,
				moment.pending ? moment.pending->end : moment.work);
		shared_unlock(gpu);
		if (spins())
			spin_until(known && until > now + GLANCE_NS ? until : now + GLANCE_NS);
		else if (!known)
			gate_sleep(slot, wake);
		else if (until - now > SPIN_NS)
			sleep_until(until);
	}
}

CUresult queue_context_wait(struct context *context)
{
	struct stream *stream = NULL;
	struct moment all = { 0, NULL };

	while (context->pending && (stream = arena_next(&streams, stream))) {
		struct moment last;

		if (stream->context != context || !stream->last)
			continue;
		last = queue_last(stream);
		queue_wait(context->gpu, last);
		queue_release(last);
	}
	all.work = context->busy;
	return queue_wait(context->gpu, all);
}

CUresult queue_stream_wait(struct stream *stream, struct moment moment)
{
	struct gpu *gpu = stream->context->gpu;
	struct device *dev = device_now(gpu);

	if ((moment.pending && !moment.pending->done) || stream->first)
		pending_add(dev, stream, 0, NULL, moment.pending);
	else if (fmax(moment.work, moment.pending ? moment.pending->end : 0) > stream->busy)
		stream_busy(stream, fmax(moment.work, moment.pending ? moment.pending->end : 0));
	if (gpu->pending)
		pending_settle(dev, gpu);
	shared_unlock(gpu);
	return CUDA_SUCCESS;
}

int64_t queue_time(struct gpu *gpu, struct moment moment)
{
	struct device *dev = device_now(gpu);
	int64_t time = device_time_at(dev, gpu->tenant,
				      moment.pending ? moment.pending->end : moment.work);

	shared_unlock(gpu);
	return time;
}

/* Give a record its device times, final if what it describes has ended. */
void queue_settle(struct truth *rec)
{
	struct gpu *gpu = rec->gpu;
	struct device *dev = device_now(gpu);

	if (rec->pending && rec->pending->done) {
		rec->start = rec->pending->start;
		rec->end = rec->pending->end;
		rec->device_start = device_time_at(dev, gpu->tenant, rec->start);
		/* The clock stood still while nothing was queued. */
		if (rec->device_start <= rec->pending->enqueued_time) {
			rec->device_start = rec->pending->enqueued_time;
			rec->has |= HAS_START;
		}
		pending_drop(rec->pending);
		rec->pending = NULL;
	}
	if (!rec->pending) {
		if (!(rec->has & HAS_START))
			rec->device_start =
				device_time_at(dev, gpu->tenant, rec->start + (dev->slice ? 1 : 0));
		rec->device_end = device_time_at(dev, gpu->tenant, rec->end);
		if (device_work(dev, gpu->tenant) >= rec->end)
			rec->has |= HAS_TIMES;
	}
	shared_unlock(gpu);
}
