// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "device.h"

/* How many nanoseconds one nanosecond of this tenant's work takes now. */
static double factor(const struct device *dev, int tenant)
{
	const struct device_tenant *t = &dev->tenants[tenant];

	if (dev->slice)
		return tenant == dev->turn ? 1 : INFINITY;
	return dev->burden - (t->active ? t->burden - 1 : 0);
}

static void mark(struct device *dev, int tenant)
{
	struct device_tenant *t = &dev->tenants[tenant];
	struct device_point *points = dev->points[tenant];
	struct device_point *last = &points[(t->points_made - 1) % DEVICE_POINTS];

	if (t->points_made && last->time == dev->time && last->work == t->work)
		return;
	points[t->points_made++ % DEVICE_POINTS] = (struct device_point){ dev->time, t->work };
}

/* The turn of the next active tenant, which may be the same. */
static void next_turn(struct device *dev)
{
	int next = (int)dev->active[0];

	for (uint32_t i = dev->actives; i-- > 0;)
		if ((int)dev->active[i] > dev->turn)
			next = (int)dev->active[i];
	mark(dev, dev->turn);
	mark(dev, next);
	dev->turn = next;
	dev->turn_ends = dev->time + dev->slice;
}

/* Everybody's speed changes with the set of active tenants: start new lines. */
static void set_active(struct device *dev, int tenant, uint32_t active)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < dev->actives; i++)
		mark(dev, (int)dev->active[i]);
	mark(dev, tenant);
	dev->tenants[tenant].active = active;
	dev->burden = 1;
	for (uint32_t i = 0; i < DEVICE_TENANTS; i++) {
		if (!dev->tenants[i].active)
			continue;
		dev->active[n++] = i;
		dev->burden += dev->tenants[i].burden - 1;
	}
	dev->actives = n;
	if (n && !dev->tenants[dev->turn].active)
		next_turn(dev);
	else if (active && n == 2)
		dev->turn_ends = dev->time + dev->slice; /* it had nobody to make room for */
}

static int64_t slot_length(const struct device *dev)
{
	return DEVICE_SLOT_NS - (dev->slot_ends - dev->time);
}

/* What is a tenant's of the slot up to now: its part of the work, of which there may be more. */
static double share_of_slot(const struct device *dev, int tenant)
{
	double all = 0, own = dev->tenants[tenant].work - dev->tenants[tenant].slot_began;
	double length = (double)slot_length(dev);

	for (int i = 0; i < DEVICE_TENANTS; i++)
		all += dev->tenants[i].work - dev->tenants[i].slot_began;
	return all > length ? own * length / all : own;
}

static void end_slot(struct device *dev)
{
	for (int i = 0; i < DEVICE_TENANTS; i++)
		dev->tenants[i].share += share_of_slot(dev, i);
	for (int i = 0; i < DEVICE_TENANTS; i++)
		dev->tenants[i].slot_began = dev->tenants[i].work;
}

static void run_to(struct device *dev, int64_t now)
{
	while (now > dev->time) {
		int64_t until = now < dev->slot_ends ? now : dev->slot_ends;

		for (uint32_t i = 0; i < dev->actives; i++) {
			int tenant = (int)dev->active[i];

			dev->tenants[tenant].work +=
				(double)(until - dev->time) / factor(dev, tenant);
		}
		dev->time = until;
		if (until < dev->slot_ends)
			continue;
		end_slot(dev);
		if (!dev->actives)
			dev->time = now;
		dev->slot_ends = dev->time - dev->time % DEVICE_SLOT_NS + DEVICE_SLOT_NS;
	}
}

/* The active tenant that will be idle first, and when; -1 if none ever is. */
static int first_idle(const struct device *dev, double *when)
{
	int first = -1;

	for (uint32_t i = 0; i < dev->actives; i++) {
		int tenant = (int)dev->active[i];
		const struct device_tenant *t = &dev->tenants[tenant];
		double left = t->drained - t->work;
		double at = (double)dev->time + (left > 0 ? left * factor(dev, tenant) : 0);

		if (!isinf(at) && (first < 0 || at < *when)) {
			first = tenant;
			*when = at;
		}
	}
	return first;
}

/* Bring the device to this time, tenants falling idle and taking turns on the way. */
void device_advance(struct device *dev, int64_t now)
{
	for (;;) {
		double when;
		int tenant = first_idle(dev, &when);
		bool idle = tenant >= 0 && ceil(when) <= (double)now;

		if (dev->slice && dev->actives > 1 && dev->turn_ends <= now &&
		    !(idle && ceil(when) <= (double)dev->turn_ends)) {
			run_to(dev, dev->turn_ends);
			next_turn(dev);
		} else if (idle) {
			run_to(dev, (int64_t)ceil(when));
			dev->tenants[tenant].work = dev->tenants[tenant].drained;
			set_active(dev, tenant, 0);
		} else {
			break;
		}
	}
	run_to(dev, now);
}

void device_reset(struct device *dev)
{
	memset(dev, 0, offsetof(struct device, points));
	dev->burden = 1;
	dev->slot_ends = DEVICE_SLOT_NS;
}

void device_join(struct device *dev, int tenant, double burden, uint32_t pid)
{
	struct device_tenant *t = &dev->tenants[tenant];

	if (t->active)
		set_active(dev, tenant, 0);
	*t = (struct device_tenant){ .joined = 1, .burden = burden < 1 ? 1 : burden, .pid = pid };
}

void device_leave(struct device *dev, int tenant, int64_t now)
{
	device_advance(dev, now);
	if (dev->tenants[tenant].active)
		set_active(dev, tenant, 0);
	dev->tenants[tenant].joined = 0;
	dev->tenants[tenant].bytes = 0;
}

/* All tenants that join take turns of this length; 0: they run at once. */
void device_take_turns(struct device *dev, int64_t slice)
{
	dev->slice = slice;
}

double device_work(const struct device *dev, int tenant)
{
	return dev->tenants[tenant].work;
}

/* The tenant's share of the device in nanoseconds: each 100 ms is divided by work. */
double device_share(const struct device *dev, int tenant)
{
	return dev->tenants[tenant].share + share_of_slot(dev, tenant);
}

/* Change until when the tenant is busy: INFINITY while it waits for a peer. */
void device_set_drained(struct device *dev, int tenant, double drained)
{
	struct device_tenant *t = &dev->tenants[tenant];

	/* What ended while nobody looked does not turn the clock back. */
	t->drained = drained < t->work ? t->work : drained;
	if (!t->active && drained > t->work)
		set_active(dev, tenant, 1);
}

/*
 * Queue work behind the clock value `after`; the caller has advanced the
 * device to now. Returns the clock value at which the work ends.
 */
double device_submit(struct device *dev, int tenant, int64_t now, double after, double work)
{
	struct device_tenant *t = &dev->tenants[tenant];
	double end;

	if (now > dev->time)
		device_advance(dev, now);
	end = (after > t->work ? after : t->work) + work;
	if (end > t->drained || !t->active)
		device_set_drained(dev, tenant, end > t->drained ? end : t->drained);
	return end;
}

static int64_t time_passed(const struct device *dev, int tenant, double work)
{
	const struct device_tenant *t = &dev->tenants[tenant];
	const struct device_point *points = dev->points[tenant];
	uint32_t kept = t->points_made < DEVICE_POINTS ? t->points_made : DEVICE_POINTS;
	uint32_t low = t->points_made - kept, high = t->points_made;
	struct device_point a, b = { dev->time, t->work };

	if (!kept)
		return dev->time;
	/* The first point at or beyond this value ends the line we look for. */
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (points[mid % DEVICE_POINTS].work >= work)
			high = mid;
		else
			low = mid + 1;
	}
	if (low < t->points_made)
		b = points[low % DEVICE_POINTS];
	if (low == t->points_made - kept)
		return b.time;
	a = points[(low - 1) % DEVICE_POINTS];
	if (b.work <= a.work)
		return a.time;
	return a.time +
	       (int64_t)((work - a.work) / (b.work - a.work) * (double)(b.time - a.time) + 0.5);
}

static int64_t time_to_come(const struct device *dev, int tenant, double work)
{
	double done[DEVICE_TENANTS] = { 0 }, time = (double)dev->time, burden = dev->burden;
	uint8_t idle[DEVICE_TENANTS] = { 0 };
	double mine = dev->tenants[tenant].active ? dev->tenants[tenant].burden - 1 : 0;

	for (;;) {
		double step = (work - dev->tenants[tenant].work - done[tenant]) * (burden - mine);
		int first = tenant;

		for (uint32_t i = 0; i < dev->actives; i++) {
			int other = (int)dev->active[i];
			const struct device_tenant *o = &dev->tenants[other];
			double left =
				(o->drained - o->work - done[other]) * (burden - o->burden + 1);

			if (other != tenant && !idle[other] && left < step) {
				step = left;
				first = other;
			}
		}
		time += step > 0 ? step : 0;
		if (first == tenant)
			return (int64_t)ceil(time);
		for (uint32_t i = 0; i < dev->actives; i++) {
			int other = (int)dev->active[i];

			if (!idle[other] && other != tenant)
				done[other] += step / (burden - dev->tenants[other].burden + 1);
		}
		done[tenant] += step / (burden - mine);
		idle[first] = 1;
		burden -= dev->tenants[first].burden - 1;
	}
}

/* As time_to_come(), where tenants take turns. */
static int64_t turns_to_come(const struct device *dev, int tenant, double work)
{
	double left[DEVICE_TENANTS], turn = (double)(dev->turn_ends - dev->time);
	double wanted = work - dev->tenants[tenant].work, time = (double)dev->time;
	int order[DEVICE_TENANTS], n = 0;

	for (uint32_t i = 0; dev->tenants[tenant].active && i < 2 * dev->actives; i++) {
		int who = (int)dev->active[i % dev->actives];

		/* From whose turn it is, once around. */
		if (i < dev->actives ? who < dev->turn : who >= dev->turn)
			continue;
		order[n] = who;
		left[n] = dev->tenants[who].drained - dev->tenants[who].work;
		left[n] = who == tenant ? fmax(left[n], wanted) : left[n];
		n++;
	}
	while (n > 1) {
		double rounds = wanted;
		int kept = 0;

		for (int i = 0; i < n; i++) {
			double ran = fmin(left[i], turn);

			if (order[i] == tenant && wanted <= ran)
				return (int64_t)ceil(time + wanted);
			wanted -= order[i] == tenant ? ran : 0;
			time += ran;
			turn = (double)dev->slice;
			if (left[i] > ran) {
				order[kept] = order[i];
				left[kept++] = left[i] - ran;
			}
		}
		n = kept;
		/* Rounds in which nobody comes to an end are alike. */
		for (int i = 0; i < n; i++)
			rounds = fmin(rounds, left[i]);
		rounds = floor(fmin(rounds, wanted) / turn) - 1;
		for (int i = 0; i < n && rounds > 0; i++)
			left[i] -= rounds * turn;
		if (rounds > 0) {
			wanted -= rounds * turn;
			time += rounds * turn * n;
		}
	}
	return (int64_t)ceil(time + wanted);
}

/*
 * When the tenant's clock reads this value. Exact for the past; for the future,
 * what it will be unless somebody becomes active before.
 */
int64_t device_time_at(const struct device *dev, int tenant, double work)
{
	const struct device_tenant *t = &dev->tenants[tenant];

	if (work <= t->work)
		return time_passed(dev, tenant, work);
	return dev->slice ? turns_to_come(dev, tenant, work) : time_to_come(dev, tenant, work);
}

/* When that can be at the soonest: whoever slows the tenant may leave at any time. */
int64_t device_earliest(const struct device *dev, int tenant, double work)
{
	/* Of those that take turns, only who is killed does. */
	if (dev->slice)
		return device_time_at(dev, tenant, work);
	return dev->time + (int64_t)ceil(work - device_work(dev, tenant));
}

/* What the tenant's clock read at a time that has passed. */
double device_work_at(const struct device *dev, int tenant, int64_t time)
{
	const struct device_tenant *t = &dev->tenants[tenant];
	const struct device_point *points = dev->points[tenant];
	uint32_t kept = t->points_made < DEVICE_POINTS ? t->points_made : DEVICE_POINTS;
	struct device_point b = { dev->time, t->work };

	if (time >= dev->time)
		return t->work;
	for (uint32_t i = 0; i < kept; i++) {
		struct device_point a = points[(t->points_made - 1 - i) % DEVICE_POINTS];

		if (a.time <= time) {
			if (b.time <= a.time)
				return a.work;
			return a.work + (b.work - a.work) * (double)(time - a.time) /
						(double)(b.time - a.time);
		}
		b = a;
	}
	return b.work;
}

uint64_t device_size(void)
{
	return sizeof(struct device);
}
