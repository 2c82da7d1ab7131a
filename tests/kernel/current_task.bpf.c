// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a tool would say that takes the current task for the owner: bytes or events by cgroup.
 * For comparison only; the product never does this. And what no program of ours can see: there
 * are kernels that run no tracing program while pid 1 is the current task, not even in interrupts.
 */
#include "kernel/block.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum charge {
	CHARGE_READ = 1,
	CHARGE_WRITE = 2,
	CHARGE_RETRANSMIT = 3,
	CHARGE_ESTABLISHED = 4,
	CHARGE_FROM_INIT = 5,
	CHARGE_IN_INIT = 6,
	CHARGE_UNFINISHED = 7,
};

struct charge_key {
	__u64 what;
	__u64 cgroup_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct charge_key);
	__type(value, __u64);
} charged SEC(".maps");

static __always_inline void charge_to(__u64 cgroup_id, __u64 what, __u64 amount)
{
	struct charge_key key = {what, cgroup_id};
	__u64 *sum = bpf_map_lookup_elem(&charged, &key);

	if (sum)
		__sync_fetch_and_add(sum, amount);
	else
		bpf_map_update_elem(&charged, &key, &amount, BPF_ANY);
}

static __always_inline void charge(__u64 what, __u64 amount)
{
	charge_to(bpf_get_current_cgroup_id(), what, amount);
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(current_complete, struct request *request, int error, unsigned int bytes)
{
	unsigned int op = request->cmd_flags & REQ_OP_MASK;

	if (op <= REQ_OP_WRITE)
		charge(op == REQ_OP_READ ? CHARGE_READ : CHARGE_WRITE, bytes);
	return 0;
}

/* Requests that were not seen to complete. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u64);
} issued SEC(".maps");

SEC("?tp_btf/block_rq_issue")
int BPF_PROG(current_issue, struct request *request)
{
	__u64 key = (__u64)request;

	if (bpf_map_update_elem(&issued, &key, &key, BPF_NOEXIST))
		charge_to(0, CHARGE_UNFINISHED, 1);
	return 0;
}

SEC("?tp_btf/block_rq_complete")
int BPF_PROG(current_done, struct request *request)
{
	__u64 key = (__u64)request;

	bpf_map_delete_elem(&issued, &key);
	return 0;
}

SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(current_retransmit)
{
	charge(CHARGE_RETRANSMIT, 1);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(current_state, void *sock, int old, int new)
{
	if (new == 1)
		charge(CHARGE_ESTABLISHED, 1);
	return 0;
}

/* The one that leaves is the current task. */
SEC("?tp_btf/sched_switch")
int BPF_PROG(current_switch, bool_t preempted, struct task_struct *previous)
{
	if (previous->tgid == 1)
		charge(CHARGE_FROM_INIT, 1);
	return 0;
}

/* No tracing program: it runs in every interrupt. */
SEC("?sockops")
int current_sockets(struct bpf_sock_ops *socket)
{
	if (socket->op == BPF_SOCK_OPS_TCP_CONNECT_CB)
		bpf_sock_ops_cb_flags_set(socket, BPF_SOCK_OPS_RETRANS_CB_FLAG);
	else if (socket->op == BPF_SOCK_OPS_RETRANS_CB && !socket->args[2] &&
		 bpf_get_current_task_btf()->tgid == 1)
		charge_to(0, CHARGE_IN_INIT, 1);
	return 1;
}
