// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A session probe that does nothing: what any probe on entry and return costs at least. */
#include "common/kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("?uprobe") int empty_session(struct pt_regs *ctx)
{
	return 0;
}
