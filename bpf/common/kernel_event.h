/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events that the kernel raises; part of event.h, which see. */
#ifndef COTENANT_KERNEL_EVENT_H
#define COTENANT_KERNEL_EVENT_H

/* How the owner of an event that the kernel raised was told. */
enum attribution {
	ATTRIBUTION_task = 1,		/* the task that did it, or that it was done to */
	ATTRIBUTION_socket = 2,		/* the cgroup that the socket was made in */
	ATTRIBUTION_dirtier = 3,	/* who dirtied the page that was written */
	ATTRIBUTION_memcg = 4,		/* who the page is charged to */
	ATTRIBUTION_blkcg = 5,		/* who the request is charged to */
	ATTRIBUTION_kernel = 6,		/* nobody: the kernel's own work */
	ATTRIBUTION_unknown = 7,
};

enum host_op {
	HOST_OP_switch = 1,
	HOST_OP_runqueue = 2,
	HOST_OP_wakeup = 3,
	HOST_OP_exec = 4,
	HOST_OP_fork = 5,
	HOST_OP_exit = 6,
	HOST_OP_oom_kill = 7,
	HOST_OP_throttled = 8,
	HOST_OP_oncpu = 9,	/* totals only: time on a CPU */
};

/* As ps shows them. */
enum host_state {
	HOST_STATE_R = 0,
	HOST_STATE_S = 1,
	HOST_STATE_D = 2,
	HOST_STATE_T = 3,
	HOST_STATE_t = 4,
	HOST_STATE_X = 5,
	HOST_STATE_Z = 6,
	HOST_STATE_P = 7,
	HOST_STATE_I = 8,
};

#define HOST_KNOWN_DURATION 0
#define HOST_KNOWN_PEER 1
#define HOST_KNOWN_STATE 2
#define HOST_KNOWN_PEER_TENANT 3
#define HOST_KNOWN_THIEF 4

struct host_event {
	struct event_head head;
	__u16 op DOC("switch, runqueue, wakeup, exec, fork, exit, oom_kill, throttled")
		AS("enum:host_op");
	__u16 known;
	__u32 reserved;
	__u64 duration_ns DOC("off the CPU (switch), waiting for one (runqueue), stopped by quota")
		KNOWN(HOST_KNOWN_DURATION);
	__u32 on_cpu DOC("the CPU it happened on") COLUMN("cpu");
	__u32 peer_pid DOC("thread that took or held the CPU, that woke it, or that was forked")
		KNOWN(HOST_KNOWN_PEER);
	__u64 peer_cgroup_id DOC("tenant of peer_pid; joins containers") AS("cgroup:peer_v1_id")
		KNOWN(HOST_KNOWN_PEER_TENANT);
	__u64 peer_v1_id;
	__u16 state DOC("why it was off the CPU, as ps shows it; R: it was preempted")
		AS("enum:host_state") KNOWN(HOST_KNOWN_STATE);
	__u16 attribution DOC("how the owner was determined: task, kernel, ...") AS("enum:attribution");
	__u32 weight DOC("how many events this row stands for");
	__u64 thief_cgroup_id DOC("of a wait: tenant that had the CPU for most of it; joins containers")
		AS("cgroup:thief_v1_id") KNOWN(HOST_KNOWN_THIEF);
	__u64 thief_v1_id;
	__u64 thief_ns DOC("for how much of the wait it had it") KNOWN(HOST_KNOWN_THIEF);
};

enum io_op {
	IO_OP_read = 1,
	IO_OP_write = 2,
	IO_OP_flush = 3,
	IO_OP_discard = 4,
	IO_OP_other = 5,
};

#define IO_KNOWN_QUEUE 0

/* A request whose pages belong to several tenants is a row for each. */
struct io_event {
	struct event_head head;
	__u16 op DOC("read, write, flush, discard, other") AS("enum:io_op");
	__u16 known;
	__u32 reserved;
	__u64 duration_ns DOC("from arrival at the device's queue to completion");
	__u64 queue_ns DOC("the part before it was handed to the device") KNOWN(IO_KNOWN_QUEUE);
	__u64 bytes DOC("bytes of the request that belong to this tenant");
	char device[16] DOC("the disk");
	__u64 sector DOC("where on the disk, in units of 512 bytes");
	__s32 error DOC("0, or the errno it failed with");
	__u16 attribution DOC("how the owner was determined: task, dirtier, memcg, blkcg, kernel, ...")
		AS("enum:attribution");
	__u16 reserved_too;
	__u32 weight DOC("how many events this row stands for");
	__u32 reserved_last;
};

enum net_op {
	NET_OP_send = 1,
	NET_OP_recv = 2,
	NET_OP_connect = 3,
	NET_OP_accept = 4,
};

/* As netstat calls them. */
enum net_family {
	NET_FAMILY_tcp = 1,
	NET_FAMILY_tcp6 = 2,
	NET_FAMILY_udp = 3,
	NET_FAMILY_udp6 = 4,
	NET_FAMILY_unix = 5,
	NET_FAMILY_other = 6,
};

#define NET_KNOWN_DURATION 0
#define NET_KNOWN_BYTES 1
#define NET_KNOWN_LOCAL 2
#define NET_KNOWN_REMOTE 3

/* An endpoint is an address and a port, or the path of a Unix socket. */
enum endpoint_number {
	ENDPOINT_ADDRESS_BYTES = 16,
	ENDPOINT_PORT_BYTES = 2,
	ENDPOINT_BYTES = 48,
};

struct net_event {
	struct event_head head;
	__u16 op DOC("send, recv, connect, accept") AS("enum:net_op");
	__u16 known;
	__u32 reserved;
	__u64 duration_ns DOC("connect: until the peer answered; NULL if its start was not seen")
		KNOWN(NET_KNOWN_DURATION);
	__u64 bytes DOC("bytes sent or received; peeked bytes count once, when read")
		KNOWN(NET_KNOWN_BYTES);
	__u16 family DOC("tcp, tcp6, udp, udp6, unix, other") AS("enum:net_family");
	__u8 local[ENDPOINT_BYTES] DOC("local address and port, or path") AS("endpoint")
		KNOWN(NET_KNOWN_LOCAL);
	__u8 remote[ENDPOINT_BYTES] DOC("the peer's; NULL if the socket does not know it")
		AS("endpoint") KNOWN(NET_KNOWN_REMOTE);
	__u16 attribution DOC("how the owner was determined: task, socket, kernel, ...")
		AS("enum:attribution");
	__u32 weight DOC("how many events this row stands for");
};

enum tcp_op {
	TCP_OP_retransmit = 1,
	TCP_OP_reset_sent = 2,
	TCP_OP_reset_received = 3,
	TCP_OP_state = 4,
};

/* As the kernel numbers them. */
enum tcp_state {
	TCP_STATE_ESTABLISHED = 1,
	TCP_STATE_SYN_SENT = 2,
	TCP_STATE_SYN_RECV = 3,
	TCP_STATE_FIN_WAIT1 = 4,
	TCP_STATE_FIN_WAIT2 = 5,
	TCP_STATE_TIME_WAIT = 6,
	TCP_STATE_CLOSE = 7,
	TCP_STATE_CLOSE_WAIT = 8,
	TCP_STATE_LAST_ACK = 9,
	TCP_STATE_LISTEN = 10,
	TCP_STATE_CLOSING = 11,
	TCP_STATE_NEW_SYN_RECV = 12,
};

#define TCP_KNOWN_STATE 0
#define TCP_KNOWN_RTT 1

struct tcp_event {
	struct event_head head;
	__u16 op DOC("retransmit, reset_sent, reset_received, state") AS("enum:tcp_op");
	__u16 known;
	__u32 reserved;
	__u8 local_ip[16] DOC("local address") AS("address");
	__u16 local_port DOC("local port");
	__u8 remote_ip[16] DOC("the peer's address") AS("address");
	__u16 remote_port DOC("the peer's port");
	__u16 state DOC("state of the socket; after a change, the new one") AS("enum:tcp_state")
		KNOWN(TCP_KNOWN_STATE);
	__u16 reserved_too;
	__u64 rtt_ns DOC("smoothed round-trip time, as the kernel estimates it") KNOWN(TCP_KNOWN_RTT);
	__u16 attribution DOC("how the owner was determined: socket, kernel, ...") AS("enum:attribution");
	__u16 reserved_last;
	__u32 weight DOC("how many events this row stands for");
};

_Static_assert(sizeof(struct host_event) == 64 + 72, "host_event has holes");
_Static_assert(sizeof(struct io_event) == 64 + 72, "io_event has holes");
_Static_assert(sizeof(struct net_event) == 64 + 128, "net_event has holes");
_Static_assert(sizeof(struct tcp_event) == 64 + 64, "tcp_event has holes");

#endif /* COTENANT_KERNEL_EVENT_H */
