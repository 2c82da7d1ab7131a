// SPDX-License-Identifier: Apache-2.0
/*
 * Streams on the work clock. An operation is placed when it is submitted, unless
 * it is behind a gate (ranks of a collective waiting for each other): then it is
 * pending, and placed as soon as everybody has arrived. A thread sees to that, so
 * that the device makes progress while the program computes.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver.h"

#define LOOK_AGAIN_NS 20000000LL /* while sleeping, somebody may have come or gone */
#define GATE_LOOK_NS 2000000LL
#define SPIN_NS 10000

static void sleep_until(int64_t time)
{
	struct timespec at = { time / 1000000000LL, time % 1000000000LL };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
		;
}

static double stream_free(const struct stream *stream)
{
	const struct context *context = stream->context;

	if (stream == context->legacy)
		return fmax(stream->busy, context->blocking_busy);
	if (!(stream->flags & STREAM_NON_BLOCKING))
		return fmax(stream->busy, context->legacy->busy);
	return stream->busy;
}

static void stream_busy(struct stream *stream, double end)
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

static void pending_drop(struct pending *p)
{
	if (p && --p->refs == 0) {
		free(p->gate);
		free(p);
	}
}

static bool gate_open(const struct gate *gate, int64_t *when)
{
	for (int i = 0; i < gate->slots; i++) {
		int64_t latest = atomic_load(&gate->slot[i]->latest);

		if (atomic_load(&gate->slot[i]->arrived) < gate->slot[i]->needed)
			return false;
		if (latest > *when)
			*when = latest;
	}
	return true;
}

static void gate_post(const struct gate *gate, int64_t arrival)
{
	for (int i = 0; i < gate->slots; i++) {
		struct gate_slot *slot = gate->slot[i];
		int64_t latest = atomic_load(&slot->latest);

		while (latest < arrival &&
		       !atomic_compare_exchange_weak(&slot->latest, &latest, arrival))
			;
		atomic_fetch_add(&slot->arrived, 1);
		syscall(SYS_futex, &slot->arrived, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
	}
}

/* Try to place the first pending operation of a stream; the device is locked. */
static bool pending_place(struct device *dev, struct gpu *gpu, struct pending *p)
{
	double start = fmax(stream_free(p->stream), p->enqueued);
	double begin = start;

	if (p->after && !p->after->done)
		return false;
	if (p->after)
		begin = start = fmax(start, p->after->end);
	if (p->gate) {
		int64_t when = device_time_at(dev, gpu->tenant, start);

		if (!p->posted) {
			p->posted = true;
			gate_post(p->gate, when > p->enqueued_time ? when : p->enqueued_time);
		}
		if (!gate_open(p->gate, &when))
			return false;
		begin = fmax(start, device_work_at(dev, gpu->tenant, when));
		if (when > dev->time)
			begin += (double)(when - dev->time) / dev->burden;
	}
	p->start = start;
	p->end = begin + p->work;
	p->done = true;
	return true;
}

static void pending_settle(struct device *dev, struct gpu *gpu)
{
	struct stream *stream = NULL;
	bool moved = true;

	while (gpu->pending && moved) {
		moved = false;
		while ((stream = arena_next(&streams, stream))) {
			struct pending *p;

			if (stream->context->gpu != gpu)
				continue;
			while ((p = stream->first) && pending_place(dev, gpu, p)) {
				stream_busy(stream, p->end);
				stream->first = p->next;
				if (!p->next)
					stream->last = NULL;
				gpu->pending--;
				stream->context->pending--;
				pending_drop(p->after);
				p->after = NULL;
				pending_drop(p);
				moved = true;
			}
		}
	}
	device_set_drained(dev, gpu->tenant, gpu->pending ? INFINITY : gpu->scheduled);
}

static struct device *device_now(struct gpu *gpu)
{
	struct device *dev = shared_lock(gpu);

	device_advance(dev, now_ns());
	if (__builtin_expect(gpu->pending != 0, 0))
		pending_settle(dev, gpu);
	return dev;
}

/* Some gate that has not opened yet, to sleep on. */
static struct gate_slot *closed_slot(struct gpu *gpu)
{
	struct stream *stream = NULL;

	while ((stream = arena_next(&streams, stream))) {
		struct gate *gate = stream->first ? stream->first->gate : NULL;

		if (!gate || stream->context->gpu != gpu)
			continue;
		for (int i = 0; i < gate->slots; i++)
			if (atomic_load(&gate->slot[i]->arrived) < gate->slot[i]->needed)
				return gate->slot[i];
	}
	return NULL;
}

static void gate_sleep(struct gate_slot *slot)
{
	struct timespec most = { 0, GATE_LOOK_NS };
	uint32_t seen;

	if (!slot) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &most, NULL);
		return;
	}
	seen = atomic_load(&slot->arrived);
	if (seen < slot->needed)
		syscall(SYS_futex, &slot->arrived, FUTEX_WAIT, seen, &most, NULL, 0);
}

static void *progress(void *arg)
{
	struct gpu *gpu = arg;
	struct gate_slot *slot;

	for (;;) {
		device_now(gpu);
		slot = closed_slot(gpu);
		shared_unlock(gpu);
		gate_sleep(slot);
	}
	return NULL;
}

static void progress_start(struct gpu *gpu)
{
	static _Atomic bool running[GPUS];
	sigset_t all, before;
	pthread_t thread;

	if (atomic_exchange(&running[gpu->ordinal], true))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, progress, gpu) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Add to the pending operations of a stream; the device is locked. */
static struct pending *pending_add(struct device *dev, struct stream *stream, double work,
				   const struct gate *gate, struct pending *after)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (gate) {
		p->gate = malloc(sizeof(*gate));
		*p->gate = *gate;
	}
	if (after)
		after->refs++;
	p->after = after;
	p->stream = stream;
	p->work = work;
	p->refs = 1;
	p->enqueued = device_work(dev, stream->context->gpu->tenant);
	p->enqueued_time = dev->time;
	*(stream->first ? &stream->last->next : &stream->first) = p;
	stream->last = p;
	stream->context->pending++;
	stream->context->gpu->pending++;
	return p;
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

	if (__builtin_expect(gpu->pending || self_->gate, 0) && must_wait(stream)) {
		if (!(stream->flags & STREAM_NON_BLOCKING))
			order_behind_pending(dev, stream);
		return submit_pending(dev, stream, work, rec);
	}
	/* A full queue makes the caller wait, as the hardware's does. */
	while (stream->ends && stream->ends[stream->queued % QUEUE_DEPTH] >
				       device_work(dev, gpu->tenant)) {
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
		rec->has |= HAS_DEVICE | (start == clock ? HAS_START : 0);
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
		int64_t now = dev->time, until = 0;

		if (reached(dev, gpu, &moment)) {
			shared_unlock(gpu);
			return CUDA_SUCCESS;
		}
		if (known)
			until = device_time_at(dev, gpu->tenant,
					       moment.pending ? moment.pending->end : moment.work);
		shared_unlock(gpu);
		if (!known)
			gate_sleep(slot);
		else if (until - now > SPIN_NS)
			sleep_until(until < now + LOOK_AGAIN_NS ? until : now + LOOK_AGAIN_NS);
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
		pending_drop(rec->pending);
		rec->pending = NULL;
	}
	if (!rec->pending) {
		if (!(rec->has & HAS_START))
			rec->device_start = device_time_at(dev, gpu->tenant, rec->start);
		rec->device_end = device_time_at(dev, gpu->tenant, rec->end);
		if (device_work(dev, gpu->tenant) >= rec->end)
			rec->has |= HAS_TIMES;
	}
	shared_unlock(gpu);
}
