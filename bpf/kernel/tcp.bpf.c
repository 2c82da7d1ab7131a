// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What happens to TCP connections: retransmits, resets, changes of state, round-trip times.
 *
 * Nearly all of it happens in interrupts, so the owner is the socket's. Half a socket has no
 * owner of its own: one that is being opened has its listener's; one that is closed already, the
 * one that it had while it lived, found by its addresses.
 */
#include "kernel/interrupted.bpf.h"
#include "kernel/sock.bpf.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(tcp_event);
VALUES(tcp_op);
VALUES(tcp_state);

struct inet_sock {
	__u16 inet_sport;
} BTF;

struct tcp_sock {
	__u32 srtt_us;
} BTF;

struct net_device {
	struct {
		struct net *net;
	} nd_net;
} BTF;

struct sk_buff {
	struct net_device *dev;
	unsigned char *head;
	__u16 network_header;
	__u16 transport_header;
} BTF;

struct iphdr {
	__u8 version;
	__u8 before[11];
	__u32 source;
	__u32 destination;
};

struct ipv6hdr {
	__u8 version;
	__u8 before[7];
	__u8 source[16];
	__u8 destination[16];
};

/* One connection, from our side. */
struct flow {
	__u64 net;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 reserved;
};

/* Those of each tenant that were closed last. */
#define FLOWS_EACH 512
#define FLOWS_MAX (16 * FLOWS_EACH)
/* As long as a closed connection still answers. */
#define TIME_WAIT_NS (60ULL * 1000000000)

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS_MAX);
	__type(key, struct flow);
	__type(value, struct owner);
} closed_flows SEC(".maps");

/* A tenant's places go round: who takes one again forgets what was closed there before. */
struct flow_place {
	__u64 tenant;
	__u64 number;
};

struct closing {
	struct flow flow;
	__u64 closed_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FLOWS_MAX);
	__type(key, struct flow_place);
	__type(value, struct closing);
} flow_places SEC(".maps");

static __always_inline void flow_of_sock(struct flow *flow, const struct sock *sock)
{
	flow->net = (__u64)BPF_CORE_READ(sock, __sk_common.skc_net.net);
	addresses_of(sock, flow->local, flow->remote);
	flow->local_port = sock->__sk_common.skc_num;
	/* A socket that gives up its port remembers it. */
	if (!flow->local_port && sock->__sk_common.skc_state != TCP_STATE_TIME_WAIT)
		flow->local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sock, inet_sport));
	flow->remote_port = bpf_ntohs(sock->__sk_common.skc_dport);
	flow->reserved = 0;
}

/* From a segment that came in: its destination is us. */
static __always_inline void flow_of_skb(struct flow *flow, const struct sk_buff *skb)
{
	void *head = skb->head, *network = head + skb->network_header;
	__u16 ports[2] = {};
	struct ipv6hdr ip = {};

	flow->net = (__u64)BPF_CORE_READ(skb, dev, nd_net.net);
	bpf_probe_read_kernel(&ip, sizeof(ip), network);
	bpf_probe_read_kernel(ports, sizeof(ports), head + skb->transport_header);
	if (ip.version >> 4 == 6) {
		__builtin_memcpy(flow->local, ip.destination, 16);
		__builtin_memcpy(flow->remote, ip.source, 16);
	} else {
		struct iphdr *ip4 = (void *)&ip;

		address_of_v4(flow->local, ip4->destination);
		address_of_v4(flow->remote, ip4->source);
	}
	flow->local_port = bpf_ntohs(ports[1]);
	flow->remote_port = bpf_ntohs(ports[0]);
	flow->reserved = 0;
}

static __always_inline void flow_forget(struct closing *oldest, __u64 tenant, __u64 now)
{
	struct owner *had = bpf_map_lookup_elem(&closed_flows, &oldest->flow);

	/* The same addresses may be another's by now. */
	if (!had || had->tenant != tenant)
		return;
	bpf_map_delete_elem(&closed_flows, &oldest->flow);
	if (now - oldest->closed_ns < TIME_WAIT_NS)
		quota_refuse(tenant, QUOTA_closed_flows);
}

static __noinline int flow_closed(const struct flow *flow, const struct owner *owner)
{
	struct usage *mine = owner ? usage_of(owner->tenant) : NULL;
	struct closing closing = {}, *oldest;
	struct flow_place place = {};

	if (!flow || !mine)
		return 0;
	place.tenant = owner->tenant;
	place.number = (__u64)__sync_fetch_and_add(&mine->used[QUOTA_closed_flows], 1) % FLOWS_EACH;
	closing.flow = *flow;
	closing.closed_ns = bpf_ktime_get_ns();
	oldest = bpf_map_lookup_elem(&flow_places, &place);
	if (oldest)
		flow_forget(oldest, place.tenant, closing.closed_ns);
	bpf_map_update_elem(&flow_places, &place, &closing, BPF_ANY);
	bpf_map_update_elem(&closed_flows, flow, owner, BPF_ANY);
	return 0;
}

static __always_inline void owner_of_flow(struct owner *owner, const struct flow *flow)
{
	struct owner *had = bpf_map_lookup_elem(&closed_flows, flow);

	if (had) {
		*owner = *had;
		return;
	}
	/* A segment for a port where nobody is. */
	__builtin_memset(owner, 0, sizeof(*owner));
	owner->cgroup_id = NOBODY;
	owner->tenant = NOBODY;
	owner->attribution = ATTRIBUTION_kernel;
}

static __noinline int row(struct owner *owner, const struct flow *flow, __u32 op,
			  __u32 state, __u32 srtt_us)
{
	struct tcp_event *event;
	struct total *total;

	if (!owner || !flow || owner_excluded(owner))
		return 0;
	total = owner_total(owner, KERNEL_FUNCTION(EVENT_TCP, op));
	if (total)
		total_add(total, 0, 0);
	if (op == TCP_OP_state) {
		event = row_reserve(total, owner, EVENT_TCP, sizeof(*event), 0);
	} else {
		/* Seldom, and of interest whoever's it is: these stay rows. */
		row_seen(total);
		event = row_room(total, owner, EVENT_TCP, sizeof(*event), 0);
	}
	if (!event)
		return 0;
	head_of(&event->head, owner, EVENT_TCP, sizeof(*event), bpf_ktime_get_ns());
	event->op = op;
	event->known = (state ? 1 << TCP_KNOWN_STATE : 0) | (srtt_us ? 1 << TCP_KNOWN_RTT : 0);
	event->reserved = 0;
	__builtin_memcpy(event->local_ip, flow->local, 16);
	event->local_port = flow->local_port;
	__builtin_memcpy(event->remote_ip, flow->remote, 16);
	event->remote_port = flow->remote_port;
	event->state = state;
	event->reserved_too = 0;
	/* The kernel keeps eight times the estimate. */
	event->rtt_ns = (__u64)srtt_us * 1000 / 8;
	event->attribution = owner->attribution;
	event->reserved_last = 0;
	event->weight = row_weight(total, event->head.timestamp_ns, 0);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline void sock_row(struct sock *sock, __u32 op, __u32 state)
{
	struct owner owner;
	struct flow flow;

	flow_of_sock(&flow, sock);
	owner_of_sock(&owner, sock);
	row(&owner, &flow, op, state,
	    state == TCP_STATE_LISTEN ? 0 : BPF_CORE_READ((struct tcp_sock *)sock, srtt_us));
}

struct file;

struct socket {
	struct sock *sk;
} BTF;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
} BTF;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
} BTF;

/* Sockets that were there before us: the first process that holds one is the one that uses it. */
SEC("?iter/task_file")
int tcp_held(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket_user *user;
	struct socket *socket;
	struct sock *sock;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sock = socket->sk;
	if (!sock || sock->sk_protocol != IPPROTO_TCP)
		return 0;
	user = bpf_sk_storage_get(&socket_users, sock, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (user && !user->tid)
		socket_used_by(user, task);
	return 0;
}

/* What could not be sent, because it waits in the device still, was not sent again. */
SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit, struct sock *sock, struct sk_buff *skb, int error)
{
	if (!error)
		sock_row(sock, TCP_OP_retransmit, sock->__sk_common.skc_state);
	return 0;
}

/* Kernels that trace only what was sent tell no error. */
SEC("?tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_sent, struct sock *sock)
{
	sock_row(sock, TCP_OP_retransmit, sock->__sk_common.skc_state);
	return 0;
}

/* The listener says it again; the connection has no socket yet. */
SEC("?tp_btf/tcp_retransmit_synack")
int BPF_PROG(tcp_retransmit_synack, struct sock *sock, struct sock *request)
{
	struct owner owner;
	struct flow flow;

	flow_of_sock(&flow, request);
	owner_of_sock(&owner, sock);
	row(&owner, &flow, TCP_OP_retransmit, TCP_STATE_SYN_RECV, 0);
	return 0;
}

SEC("?tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset, struct sock *sock)
{
	sock_row(sock, TCP_OP_reset_received, sock->__sk_common.skc_state);
	return 0;
}

SEC("?tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset, struct sock *sock, struct sk_buff *skb)
{
	struct owner owner;
	struct flow flow;
	__u32 state = 0;

	if (sock) {
		state = sock->__sk_common.skc_state;
		if (state != TCP_STATE_TIME_WAIT && state != TCP_STATE_NEW_SYN_RECV) {
			sock_row(sock, TCP_OP_reset_sent, state);
			return 0;
		}
		flow_of_sock(&flow, sock);
	} else if (skb) {
		flow_of_skb(&flow, skb);
	} else {
		return 0;
	}
	owner_of_flow(&owner, &flow);
	row(&owner, &flow, TCP_OP_reset_sent, state, 0);
	return 0;
}

static __noinline int state_changed(struct sock *sock, int old, int new)
{
	struct owner owner;
	struct flow flow;

	if (sock->sk_protocol != IPPROTO_TCP)
		return 0;
	/* These two are done by the task itself. */
	if (old == TCP_STATE_CLOSE && (new == TCP_STATE_SYN_SENT || new == TCP_STATE_LISTEN))
		socket_use(sock);
	flow_of_sock(&flow, sock);
	owner_of_sock(&owner, sock);
	row(&owner, &flow, TCP_OP_state, new,
	    new == TCP_STATE_LISTEN ? 0 : BPF_CORE_READ((struct tcp_sock *)sock, srtt_us));
	if (new == TCP_STATE_CLOSE && flow.remote_port)
		flow_closed(&flow, &owner);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_state, struct sock *sock, int old, int new)
{
	run_set(INTERRUPTED_tcp_state, 1);
	METERED(EVENT_TCP, state_changed(sock, old, new));
	run_set(INTERRUPTED_tcp_state, 0);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_state_inside, struct sock *sock, int old, int new)
{
	if (run_inside(INTERRUPTED_tcp_state))
		state_changed(sock, old, new);
	return 0;
}
