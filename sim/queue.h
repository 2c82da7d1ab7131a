/* SPDX-License-Identifier: Apache-2.0 */
/* Between queue.c and pending.c; the device is locked in all but the last four. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "driver.h"

double stream_free(const struct stream *stream);
void stream_busy(struct stream *stream, double end);
struct pending *pending_add(struct device *dev, struct stream *stream, double work,
			    const struct gate *gate, struct pending *after);
void pending_drop(struct pending *p);
void pending_settle(struct device *dev, struct gpu *gpu);
struct gate_slot *closed_slot(struct gpu *gpu);

/* Lock the device and bring it to the present. */
struct device *device_now(struct gpu *gpu);
void gate_sleep(struct gate_slot *slot, int64_t wake);
void gate_post(const struct gate *gate, int64_t arrival);
void progress_start(struct gpu *gpu);

#endif
