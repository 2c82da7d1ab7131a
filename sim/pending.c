// SPDX-License-Identifier: Apache-2.0
/*
 * Operations behind a gate: ranks of a collective wait for each other on the
 * device, and what is queued behind them waits too. Each is placed on the work
 * clock as soon as everybody has arrived. A thread sees to that, so that the
 * device makes progress while the program computes.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "queue.h"

#define GATE_LOOK_NS 2000000LL

void pending_drop(struct pending *p)
{
	if (p && --p->refs == 0) {
		free(p->gate);
		free(p);
	}
}

static bool slot_open(const struct gate *gate, int i)
{
	/* The difference is signed: both run over together. */
	return (int32_t)(atomic_load(&gate->slot[i]->arrived) - gate->needed[i]) >= 0;
}

static bool gate_open(const struct gate *gate, int64_t *when)
{
	if (gate->aborted && atomic_load(gate->aborted))
		return true;
	for (int i = 0; i < gate->slots; i++) {
		int64_t latest = atomic_load(&gate->slot[i]->latest);

		if (!slot_open(gate, i))
			return false;
		if (latest > *when)
			*when = latest;
	}
	return true;
}

void gate_post(const struct gate *gate, int64_t arrival)
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

void pending_settle(struct device *dev, struct gpu *gpu)
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

/* Some gate that has not opened yet, to sleep on. */
struct gate_slot *closed_slot(struct gpu *gpu)
{
	struct stream *stream = NULL;

	while ((stream = arena_next(&streams, stream))) {
		struct gate *gate = stream->first ? stream->first->gate : NULL;

		if (!gate || stream->context->gpu != gpu)
			continue;
		for (int i = 0; i < gate->slots; i++)
			if (!slot_open(gate, i))
				return gate->slot[i];
	}
	return NULL;
}

void gate_sleep(struct gate_slot *slot)
{
	struct timespec most = { 0, GATE_LOOK_NS };
	uint32_t seen;

	if (!slot) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &most, NULL);
		return;
	}
	seen = atomic_load(&slot->arrived);
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

void progress_start(struct gpu *gpu)
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
struct pending *pending_add(struct device *dev, struct stream *stream, double work,
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
