/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One GPU as a timing model: no threads, no clock, no system calls.
 *
 * Every tenant (a process) has a clock of its own that counts nanoseconds of
 * device work done. It stands still while the tenant has nothing queued, runs
 * at full speed while the tenant is alone, and slower while others are active:
 *
 *	speed = 1 / (1 + sum over other active tenants of (their burden - 1))
 *
 * On a device that shares its time instead, one tenant runs at full speed for a
 * slice, or until it has nothing queued, and all others stand still.
 *
 * Work is placed on that clock; the time at which the clock reaches a value is
 * when the work is done. Time is a parameter everywhere, so a test can drive
 * the model through years without waiting.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdint.h>

#define DEVICE_MAGIC 0x31555047746f63ULL /* "cotGPU1" */
#define DEVICE_TENANTS 64
#define DEVICE_POINTS 1024
#define DEVICE_SLOT_NS 100000000LL

/* The tenant's work clock read work at time; straight lines in between. */
struct device_point {
	int64_t time;
	double work;
};

struct device_tenant {
	uint32_t joined;
	uint32_t active;
	uint32_t points_made; /* ever; the last DEVICE_POINTS are kept */
	uint32_t pid;	      /* for people; a pid of the tenant's own namespace */
	double burden;	      /* how much this tenant slows each other one */
	double work;	      /* the tenant's clock at device.time */
	double drained;	      /* the clock value at which it has nothing left */
	uint64_t bytes;	      /* memory it holds */
	double slot_began;    /* its clock at the beginning of the slot */
	double share;	      /* nanoseconds of the device in all slots before */
};

struct device {
	int64_t time;
	double burden;	   /* 1 + what all active tenants add */
	int64_t slice;	   /* how long a turn is; 0: all run at once */
	int64_t turn_ends; /* unless whose turn it is has nothing left before */
	int32_t turn;	   /* the active tenant that runs, of those that take turns */
	int64_t slot_ends;
	uint32_t actives;
	uint32_t active[DEVICE_TENANTS]; /* the first `actives` are tenants' numbers */
	struct device_tenant tenants[DEVICE_TENANTS];
	struct device_point points[DEVICE_TENANTS][DEVICE_POINTS];
};

void device_reset(struct device *dev);
void device_join(struct device *dev, int tenant, double burden, uint32_t pid);
void device_leave(struct device *dev, int tenant, int64_t now);
void device_advance(struct device *dev, int64_t now);
void device_take_turns(struct device *dev, int64_t slice);
double device_work(const struct device *dev, int tenant);
double device_share(const struct device *dev, int tenant);
void device_set_drained(struct device *dev, int tenant, double drained);
double device_submit(struct device *dev, int tenant, int64_t now, double after, double work);
int64_t device_time_at(const struct device *dev, int tenant, double work);
double device_work_at(const struct device *dev, int tenant, int64_t time);
int64_t device_earliest(const struct device *dev, int tenant, double work);
uint64_t device_size(void);

#endif
