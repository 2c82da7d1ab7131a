// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a tool would say that takes the current task for the owner: bytes or events by cgroup.
 * For comparison only; the product never does this.
 */
#include "block.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum naive {
	NAIVE_READ = 1,
	NAIVE_WRITE = 2,
	NAIVE_RETRANSMIT = 3,
	NAIVE_ESTABLISHED = 4,
};

struct naive_key {
	__u64 what;
	__u64 cgroup_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct naive_key);
	__type(value, __u64);
} charged SEC(".maps");

static __always_inline void charge(__u64 what, __u64 amount)
{
	struct naive_key key = {what, bpf_get_current_cgroup_id()};
	__u64 *sum = bpf_map_lookup_elem(&charged, &key);

	if (sum)
		__sync_fetch_and_add(sum, amount);
	else
		bpf_map_update_elem(&charged, &key, &amount, BPF_ANY);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(naive_complete, struct request *request, int error, unsigned int bytes)
{
	unsigned int op = request->cmd_flags & REQ_OP_MASK;

	if (op <= REQ_OP_WRITE)
		charge(op == REQ_OP_READ ? NAIVE_READ : NAIVE_WRITE, bytes);
	return 0;
}

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(naive_retransmit)
{
	charge(NAIVE_RETRANSMIT, 1);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(naive_state, void *sock, int old, int new)
{
	if (new == 1)
		charge(NAIVE_ESTABLISHED, 1);
	return 0;
}
