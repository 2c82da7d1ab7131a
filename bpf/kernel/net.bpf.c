// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bytes through sockets, and connections made and taken.
 *
 * Sending and receiving belong to the task that does it; a connection that was made or taken in
 * an interrupt belongs to the task that asked for it, or to the listener's.
 */
#include "kernel/caller.bpf.h"
#include "kernel/interrupted.bpf.h"
#include "kernel/sock.bpf.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORDS(net_event);
VALUES(net_op);
VALUES(net_family);
NUMBERS(endpoint_number);

#define MSG_PEEK 2
#define UNIX_PATH_AT 2	/* of sun_path in sockaddr_un */

/* Rows for messages over Unix sockets, too: else they are in the totals alone. */
const volatile __u8 net_all = 0;

struct sockaddr_un {
	char sun_path[108];
} BTF;

struct unix_address {
	int len;
	struct sockaddr_un name[0];
} BTF;

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} BTF;

static __always_inline __u16 family_of(const struct sock *sock)
{
	__u16 family = sock->__sk_common.skc_family;

	if (family == AF_UNIX)
		return NET_FAMILY_unix;
	if (family != AF_INET && family != AF_INET6)
		return NET_FAMILY_other;
	if (sock->sk_protocol == IPPROTO_TCP)
		return family == AF_INET ? NET_FAMILY_tcp : NET_FAMILY_tcp6;
	if (sock->sk_protocol == IPPROTO_UDP)
		return family == AF_INET ? NET_FAMILY_udp : NET_FAMILY_udp6;
	return NET_FAMILY_other;
}

static __always_inline bool_t unix_path(__u8 *into, struct unix_sock *sock)
{
	struct unix_address *address = sock ? BPF_CORE_READ(sock, addr) : NULL;
	int size = address ? BPF_CORE_READ(address, len) : 0;
	void *path = (void *)address + bpf_core_field_offset(struct unix_address, name) + UNIX_PATH_AT;

	if (size <= UNIX_PATH_AT)
		return 0;
	size -= UNIX_PATH_AT;
	if (size > ENDPOINT_BYTES)
		size = ENDPOINT_BYTES;
	return bpf_probe_read_kernel(into, size, path) == 0;
}

static __always_inline void endpoints(struct net_event *event, const struct sock *sock)
{
	__u16 local = sock->__sk_common.skc_num, remote = bpf_ntohs(sock->__sk_common.skc_dport);

	__builtin_memset(event->local, 0, sizeof(event->local));
	__builtin_memset(event->remote, 0, sizeof(event->remote));
	if (event->family == NET_FAMILY_unix) {
		if (unix_path(event->local, (void *)sock))
			event->known |= 1 << NET_KNOWN_LOCAL;
		if (unix_path(event->remote, (void *)BPF_CORE_READ((struct unix_sock *)sock, peer)))
			event->known |= 1 << NET_KNOWN_REMOTE;
		return;
	}
	if (event->family == NET_FAMILY_other)
		return;
	addresses_of(sock, event->local, event->remote);
	__builtin_memcpy(event->local + ENDPOINT_ADDRESS_BYTES, &local, ENDPOINT_PORT_BYTES);
	__builtin_memcpy(event->remote + ENDPOINT_ADDRESS_BYTES, &remote, ENDPOINT_PORT_BYTES);
	if (local)
		event->known |= 1 << NET_KNOWN_LOCAL;
	if (remote)
		event->known |= 1 << NET_KNOWN_REMOTE;
}

struct moved {
	__u64 began_ns;
	__u64 duration_ns;
	__u64 bytes;
	__u32 op;
	__u32 known;
};

static __always_inline void row(const struct sock *sock, const struct owner *owner,
				struct total *total, const struct moved *moved)
{
	struct net_event *event = row_room(total, owner, EVENT_NET, sizeof(*event),
					   moved->bytes);

	if (!event)
		return;
	head_of(&event->head, owner, EVENT_NET, sizeof(*event), moved->began_ns);
	event->op = moved->op;
	event->known = moved->known;
	event->reserved = 0;
	event->duration_ns = moved->duration_ns;
	event->bytes = moved->bytes;
	event->family = family_of(sock);
	event->attribution = owner->attribution;
	event->weight = row_weight(total, moved->began_ns, moved->bytes);
	endpoints(event, sock);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* A message of the current task that the budget has room for: this costs much more than to count. */
static __noinline int message_row(struct sock *sock, struct caller *caller, __u32 bytes, __u32 op)
{
	struct moved moved = {
		.began_ns = bpf_ktime_get_ns(),
		.bytes = bytes,
		.op = op,
		.known = 1 << NET_KNOWN_BYTES,
	};
	__u32 index = op == NET_OP_recv;
	struct owner owner = {};
	struct total *total;

	if (!caller)
		return 0;
	caller_owner(&owner, caller);
	owner_task(&owner, bpf_get_current_task_btf());
	owner.attribution = owner.tenant == NOBODY ? ATTRIBUTION_kernel : ATTRIBUTION_task;
	total = owner_total(&owner, KERNEL_FUNCTION(EVENT_NET, op));
	if (total) {
		caller->count[index]++;
		caller->bytes[index] += bytes;
		messages_tell(caller, index, total);
	}
	row_seen(total);
	row(sock, &owner, total, &moved);
	return 0;
}

static __always_inline bool_t caller_excluded(const struct caller *caller)
{
	struct control *now = control();
	struct owner owner = {};

	if (!now || !now->excludes)
		return 0;
	caller_owner(&owner, caller);
	return owner_excluded(&owner);
}

/*
 * A message: only programs that run as the task, one at a time on its CPU, count here, and a plain
 * addition is exact.
 */
static __always_inline void moved(struct sock *sock, __u32 bytes, __u32 op)
{
	struct caller *caller = caller_here(bpf_get_current_task_btf());
	struct meter *meter;
	bool_t rows = sock->__sk_common.skc_family != AF_UNIX || net_all;

	if (!caller || caller_excluded(caller))
		return;
	if (rows) {
		meter = meter_here();
		if (sock->sk_protocol == IPPROTO_TCP)
			socket_use(sock);
		if (meter && within_budget(meter, EVENT_NET,
					   caller->first && runs_short(meter, EVENT_NET))) {
			message_row(sock, caller, bytes, op);
			return;
		}
	}
	caller->count[op - NET_OP_send]++;
	caller->bytes[op - NET_OP_send] += bytes;
	if (rows) {
		caller->withheld[op - NET_OP_send]++;
		caller->withheld_bytes[op - NET_OP_send] += bytes;
	}
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(net_send, struct sock *sock, int result)
{
	if (result <= 0)
		return 0;
	return METERED(EVENT_NET, moved(sock, result, NET_OP_send));
}

/* Bytes that were only looked at come again. */
SEC("?tp_btf/sock_recv_length")
int BPF_PROG(net_recv, struct sock *sock, int result, int flags)
{
	if (result <= 0 || flags & MSG_PEEK)
		return 0;
	return METERED(EVENT_NET, moved(sock, result, NET_OP_recv));
}

/* A connection: its total, and its row. */
static __always_inline void connection(struct sock *sock, struct owner *owner,
				       const struct moved *moved)
{
	struct total *total;

	if (owner_excluded(owner))
		return;
	total = owner_total(owner, KERNEL_FUNCTION(EVENT_NET, moved->op));
	if (total)
		total_add(total, moved->duration_ns, moved->bytes);
	row_seen(total);
	/* As a change of state, so that a storm of messages leaves connections their rows. */
	if (affordable(owner->tenant, owner->cgroup_id, EVENT_TCP))
		row(sock, owner, total, moved);
	else
		row_withheld(total, owner, moved->bytes);
}

static __always_inline void connected(struct sock *sock, struct socket_user *user)
{
	struct moved moved = {.op = NET_OP_connect, .known = 1 << NET_KNOWN_DURATION};
	struct owner owner = {};

	owner.cgroup_id = user->cgroup_id;
	owner.cgroup_v1_id = user->v1_id;
	owner.tenant = user->tenant;
	owner.process_start_ns = user->process_start_ns;
	owner.pid = user->pid;
	owner.tid = user->tid;
	owner.attribution = owner.cgroup_id == NOBODY ? ATTRIBUTION_kernel : ATTRIBUTION_task;
	__builtin_memcpy(owner.comm, user->comm, sizeof(owner.comm));
	moved.began_ns = user->connect_ns;
	moved.duration_ns = bpf_ktime_get_ns() - user->connect_ns;
	user->connect_ns = 0;
	connection(sock, &owner, &moved);
}

static __always_inline void accepted(struct sock *sock)
{
	struct moved moved = {.op = NET_OP_accept, .began_ns = bpf_ktime_get_ns()};
	struct owner owner;

	owner_of_sock(&owner, sock);
	connection(sock, &owner, &moved);
}

static __noinline int state_changed(struct sock *sock, int old, int new)
{
	struct socket_user *user;

	if (sock->sk_protocol != IPPROTO_TCP)
		return 0;
	if (old == TCP_STATE_CLOSE && new == TCP_STATE_LISTEN) {
		socket_use(sock);
	} else if (old == TCP_STATE_CLOSE && new == TCP_STATE_SYN_SENT) {
		user = socket_use(sock);
		if (user)
			user->connect_ns = bpf_ktime_get_ns();
	} else if (old == TCP_STATE_SYN_SENT && new == TCP_STATE_ESTABLISHED) {
		user = bpf_sk_storage_get(&socket_users, sock, 0, 0);
		if (user && user->connect_ns)
			connected(sock, user);
	} else if (old == TCP_STATE_SYN_RECV && new == TCP_STATE_ESTABLISHED) {
		accepted(sock);
	}
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(net_state, struct sock *sock, int old, int new)
{
	run_set(INTERRUPTED_net_state, 1);
	METERED(EVENT_NET, state_changed(sock, old, new));
	run_set(INTERRUPTED_net_state, 0);
	return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(net_state_inside, struct sock *sock, int old, int new)
{
	if (run_inside(INTERRUPTED_net_state))
		state_changed(sock, old, new);
	return 0;
}
