/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets: whose they are, and where their ends are.
 *
 * A socket belongs to the cgroup that it was made in, and one that a listener accepted to the
 * listener's, whichever interrupt carries out what happens to it. Which thread uses it is noted
 * when one is seen to.
 */
#ifndef COTENANT_SOCK_BPF_H
#define COTENANT_SOCK_BPF_H

#include "kernel/owner.bpf.h"

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

struct net;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct {
		struct net *net;
	} skc_net;
	struct {
		__u8 bytes[16];
	} skc_v6_daddr;
	struct {
		__u8 bytes[16];
	} skc_v6_rcv_saddr;
	struct sock *skc_listener;
} BTF;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} BTF;

struct sock {
	struct sock_common __sk_common;
	unsigned short sk_protocol;
	unsigned short sk_type;
	struct sock_cgroup_data sk_cgrp_data;
} BTF;

struct socket_user {
	__u64 cgroup_id;
	__u64 tenant;
	__u64 v1_id;
	__u64 process_start_ns;
	__u64 connect_ns;
	__u32 pid;
	__u32 tid;
	char comm[16];
};

/* What a listener's has, the socket that it accepts starts with. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct socket_user);
} socket_users SEC(".maps");

static __always_inline void address_of_v4(__u8 *into, __u32 address)
{
	__builtin_memset(into, 0, 10);
	into[10] = 0xff;
	into[11] = 0xff;
	__builtin_memcpy(into + 12, &address, 4);
}

/* Both ends' addresses, those of version 4 as version 6 writes them. */
static __always_inline void addresses_of(const struct sock *sock, __u8 *local, __u8 *remote)
{
	const struct sock_common *common = &sock->__sk_common;

	if (common->skc_family == AF_INET6) {
		bpf_probe_read_kernel(local, 16, &common->skc_v6_rcv_saddr);
		bpf_probe_read_kernel(remote, 16, &common->skc_v6_daddr);
	} else {
		address_of_v4(local, common->skc_rcv_saddr);
		address_of_v4(remote, common->skc_daddr);
	}
}

static __always_inline void socket_used_by(struct socket_user *user,
					   const struct task_struct *task)
{
	struct owner owner;

	owner_of_task(&owner, task);
	user->cgroup_id = owner.cgroup_id;
	user->v1_id = owner.cgroup_v1_id;
	user->tenant = owner.tenant;
	user->process_start_ns = owner.process_start_ns;
	user->pid = owner.pid;
	user->tid = owner.tid;
	__builtin_memcpy(user->comm, owner.comm, sizeof(user->comm));
}

/* Only where the current task is the one that uses the socket. */
static __always_inline struct socket_user *socket_use(struct sock *sock)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct socket_user *user;

	user = bpf_sk_storage_get(&socket_users, sock, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (user && user->tid != task->pid)
		socket_used_by(user, task);
	return user;
}

/* The socket's own cgroup. The thread is told, too, as long as it is of the same. */
static __always_inline void owner_of_sock(struct owner *owner, struct sock *sock)
{
	struct socket_user *user = bpf_sk_storage_get(&socket_users, sock, 0, 0);

	struct place place = {};

	__builtin_memset(owner, 0, sizeof(*owner));
	place_of(&place, (__u64)BPF_CORE_READ(sock, sk_cgrp_data.cgroup));
	owner->cgroup_id = place.cgroup_id;
	owner->tenant = place.tenant ?: TENANT_HOST;
	owner->attribution = owner->cgroup_id ? ATTRIBUTION_socket : ATTRIBUTION_unknown;
	if (!user || user->cgroup_id != owner->cgroup_id)
		return;
	owner->cgroup_v1_id = user->v1_id;
	owner->tenant = user->tenant;
	owner->process_start_ns = user->process_start_ns;
	owner->pid = user->pid;
	owner->tid = user->tid;
	__builtin_memcpy(owner->comm, user->comm, sizeof(owner->comm));
}

#endif /* COTENANT_SOCK_BPF_H */
