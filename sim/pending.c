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

		/* Arrived is who really is there: a forecast may yet be wrong. */
		if (start > device_work(dev, gpu->tenant)) {
			gpu->wake = !gpu->wake || when < gpu->wake ? when : gpu->wake;
			return false;
		}
		when = when > p->enqueued_time ? when : p->enqueued_time;
		if (!p->posted) {
			p->posted = true;
			gate_post(p->gate, when);
		}
		if (!gate_open(p->gate, &when))
			return false;
		begin = fmax(start, device_work_at(dev, gpu->tenant, when));
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
		gpu->wake = 0;
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

/* Until somebody else arrives, or the device comes to a gate of ours. */
void gate_sleep(struct gate_slot *slot, int64_t wake)
{
	int64_t left = wake ? wake - now_ns() : GATE_LOOK_NS;
	struct timespec most = { 0, left < GATE_LOOK_NS ? left : GATE_LOOK_NS };

	if (left <= 0)
		return;
	if (slot)
		syscall(SYS_futex, &slot->arrived, FUTEX_WAIT, atomic_load(&slot->arrived), &most,
			NULL, 0);
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &most, NULL);
}

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

/* Nothing is pending: sleep until progress_start() is called again. */
static void idle(struct gpu *gpu)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	pthread_mutex_lock(&idle_lock);
	if (!gpu->pending)
		pthread_cond_timedwait(&more, &idle_lock, &until);
	pthread_mutex_unlock(&idle_lock);
}

static void *progress(void *arg)
{
	struct gpu *gpu = arg;
	struct gate_slot *slot;
	int64_t wake;

	for (;;) {
		device_now(gpu);
		slot = closed_slot(gpu);
		wake = gpu->wake;
		shared_unlock(gpu);
		if (gpu->pending)
			gate_sleep(slot, wake);
		else
			idle(gpu);
	}
	return NULL;
}

/* Something is pending: see to it. */
void progress_start(struct gpu *gpu)
{
	static _Atomic bool running[GPUS];
	sigset_t all, before;
	pthread_t thread;

	if (atomic_exchange(&running[gpu->ordinal], true)) {
		pthread_mutex_lock(&idle_lock);
		pthread_cond_broadcast(&more);
		pthread_mutex_unlock(&idle_lock);
		return;
	}
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
