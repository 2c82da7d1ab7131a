// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Programs that no verifier takes, each for another reason. */
#include "common/kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct missing {
	int field;
} BTF;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[4]);
} few SEC(".maps");

SEC("?uprobe")
int reads_too_far(struct pt_regs *ctx)
{
	__u32 zero = 0;
	__u64 *value = bpf_map_lookup_elem(&few, &zero);

	return value ? value[ctx->di] : 0;
}

SEC("?uprobe")
int reads_a_missing_field(struct pt_regs *ctx)
{
	return BPF_CORE_READ((struct missing *)ctx->di, field);
}

SEC("?tp_btf/no_such_tracepoint")
int has_no_hook(void *ctx)
{
	return 0;
}
