/* SPDX-License-Identifier: Apache-2.0 */
/* What every copy and memset comes down to. */
#ifndef SIM_COPY_H
#define SIM_COPY_H

#include "driver.h"

struct transfer {
	uint64_t dst, src;
	size_t bytes;
	const char *direction; /* NULL: by the addresses */
	CUstream stream;
	enum { ASYNC, WAITS, RETURNS } mode; /* RETURNS: no stream argument, and no waiting */
	bool per_thread;
};

CUresult transfer_copy(struct truth *rec, const struct transfer *t);
CUresult transfer_fill(struct truth *rec, const struct transfer *t, uint32_t value, int width);
/* The device's side of a transfer whose data is already in place. */
CUresult transfer_time(struct truth *rec, const struct transfer *t, int kind);
/* Move memory if that is wanted and the addresses can be ours. */
void transfer_move(uint64_t dst, uint64_t src, size_t bytes);

#endif
