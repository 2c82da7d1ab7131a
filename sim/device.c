// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "device.h"

/* How many nanoseconds one nanosecond of this tenant's work takes now. */
static double factor(const struct device *dev, int tenant)
{
	const struct device_tenant *t = &dev->tenants[tenant];

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
}

static void run_to(struct device *dev, int64_t now)
{
	if (now <= dev->time)
		return;
	for (uint32_t i = 0; i < dev->actives; i++) {
		int tenant = (int)dev->active[i];

		dev->tenants[tenant].work += (double)(now - dev->time) / factor(dev, tenant);
	}
	dev->time = now;
}

/* The active tenant that will be idle first, and when; -1 if none ever is. */
static int first_idle(const struct device *dev, double *when)
{
	int first = -1;

	for (uint32_t i = 0; i < dev->actives; i++) {
		int tenant = (int)dev->active[i];
		const struct device_tenant *t = &dev->tenants[tenant];
		double at = (double)dev->time + (t->drained - t->work) * factor(dev, tenant);

		if (!isinf(at) && (first < 0 || at < *when)) {
			first = tenant;
			*when = at;
		}
	}
	return first;
}

/* Bring the device to this time, tenants falling idle on the way. */
void device_advance(struct device *dev, int64_t now)
{
	double when;
	int tenant;

	while ((tenant = first_idle(dev, &when)) >= 0 && ceil(when) <= (double)now) {
		run_to(dev, (int64_t)ceil(when));
		dev->tenants[tenant].work = dev->tenants[tenant].drained;
		set_active(dev, tenant, 0);
	}
	run_to(dev, now);
}

void device_reset(struct device *dev)
{
	memset(dev, 0, offsetof(struct device, points));
	dev->burden = 1;
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

double device_work(const struct device *dev, int tenant)
{
	return dev->tenants[tenant].work;
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

/*
 * When the tenant's clock reads this value. Exact for the past; for the future,
 * what it will be unless somebody becomes active before.
 */
int64_t device_time_at(const struct device *dev, int tenant, double work)
{
	const struct device_tenant *t = &dev->tenants[tenant];

	return work <= t->work ? time_passed(dev, tenant, work) : time_to_come(dev, tenant, work);
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
