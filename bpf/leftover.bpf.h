/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a process leaves behind when it ends.
 */
#ifndef COTENANT_LEFTOVER_BPF_H
#define COTENANT_LEFTOVER_BPF_H

#include "capture.bpf.h"

static long capture_drop(void *map, __u64 *number, __u32 *pid, __u32 *whose)
{
	if (*pid == *whose)
		capture_close(*number);
	return 0;
}

/* Captures that it never ended. */
static __always_inline void captures_drop(__u32 pid)
{
	if (anybody_captures())
		bpf_for_each_map_elem(&captures, capture_drop, &pid, 0);
}

#endif /* COTENANT_LEFTOVER_BPF_H */
