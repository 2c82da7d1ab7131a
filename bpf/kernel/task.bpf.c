// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Cgroups and processes from birth to end: the facts that identity feeds on.
 *
 * The tracepoint hands us the path while the cgroup exists; reading it from user space after
 * the event misses those that live for milliseconds.
 */
#include "common/birth.bpf.h"
#include "cuda/leftover.bpf.h"
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

VALUES(fact_kind);
VALUES(counter);
VALUES(v1_controller);
VALUES(quota);
NUMBERS(tenant_number);
FLAGS(tenant_flags);
LAYOUT(tenant);
LAYOUT(usage);
LAYOUT(freed);
LAYOUT(room);
LAYOUT(process);
NUMBERS(kernel_function);
LAYOUT(fact);
LAYOUT(total_key);
LAYOUT(total);
LAYOUT(control);

struct ns_common {
	unsigned int inum;
} BTF;

struct mnt_namespace {
	struct ns_common ns;
} BTF;

struct nsproxy {
	struct mnt_namespace *mnt_ns;
} BTF;

struct task_struct___placed {
	struct nsproxy *nsproxy;
} BTF;

struct text_fact {
	struct fact fact;
	char text[FACT_TEXT_MAX];
};

/* The same facts for the process that attaches: it must know before the container runs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} births SEC(".maps");

/* Cgroup paths are written under the kernel's own lock, one at a time per CPU at most. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct text_fact);
} paths SEC(".maps");

/*
 * Cgroups that were made a moment ago, and how many processes that come to be in each are still of
 * interest: a runtime enters the cgroup with one, and the container is a grandchild of it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} newborn SEC(".maps");

#define PROCESSES_OF_INTEREST 64

static __always_inline void tell_recorder(void *data, __u32 size)
{
	if (bpf_ringbuf_output(&identities, data, size, BPF_RB_NO_WAKEUP))
		count(COUNTER_IDENTITY_LOST);
}

/* Without the flag a record wakes only a reader that has read all before it. */
static __always_inline void tell_helper(void *data, __u32 size)
{
	if (bpf_ringbuf_output(&births, data, size, BPF_RB_FORCE_WAKEUP))
		count(COUNTER_FACT_LOST);
}

/*
 * Most programs start in the mounts that the helper is in, and end soon: of those that start within
 * HOME_WAKE_NS only the first wakes it. After its turn for that one it takes another in time for
 * the rest.
 */
#define HOME_WAKE_NS 8000000

const volatile __u64 home_mounts = 0;
static __u64 home_woken_ns;

static __always_inline void tell_start(struct fact *fact)
{
	__u64 flags = BPF_RB_FORCE_WAKEUP;

	if (fact->other == home_mounts && fact->timestamp_ns - home_woken_ns < HOME_WAKE_NS)
		flags = BPF_RB_NO_WAKEUP;
	else if (fact->other == home_mounts)
		home_woken_ns = fact->timestamp_ns;
	if (bpf_ringbuf_output(&births, fact, sizeof(*fact), flags))
		count(COUNTER_FACT_LOST);
}

static __always_inline void cgroup_fact(struct cgroup *cgroup, const char *path, __u16 kind)
{
	struct text_fact *fact;
	__u32 zero = 0;
	long size;

	fact = bpf_map_lookup_elem(&paths, &zero);
	if (!fact)
		return;
	size = bpf_probe_read_kernel_str(fact->text, sizeof(fact->text), path);
	if (size < 1 || size > FACT_TEXT_MAX)
		size = 1;
	__builtin_memset(&fact->fact, 0, sizeof(fact->fact));
	fact->fact.timestamp_ns = bpf_ktime_get_ns();
	fact->fact.kind = kind;
	fact->fact.rank = (__u32)bpf_get_current_uid_gid();
	fact->fact.size = size - 1;
	fact->fact.handle = BPF_CORE_READ(cgroup, kn, id);
	fact->fact.other = BPF_CORE_READ(cgroup, root, hierarchy_id);
	tell_recorder(fact, sizeof(struct fact) + ((size - 1) & (FACT_TEXT_MAX - 1)));
	tell_helper(fact, sizeof(struct fact) + ((size - 1) & (FACT_TEXT_MAX - 1)));
}

static __always_inline __u64 key_of_cgroup(struct cgroup *cgroup)
{
	return cgroup_key((__u32)BPF_CORE_READ(cgroup, root, hierarchy_id),
			  BPF_CORE_READ(cgroup, kn, id));
}

SEC("?tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_born, struct cgroup *cgroup, const char *path)
{
	__u32 processes = PROCESSES_OF_INTEREST;
	__u64 key = key_of_cgroup(cgroup);

	if (!cgroup_admitted(cgroup, key))
		return 0;
	bpf_map_update_elem(&newborn, &key, &processes, BPF_ANY);
	cgroup_fact(cgroup, path, FACT_CGROUP_BORN);
	return 0;
}

SEC("?tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_gone, struct cgroup *cgroup, const char *path)
{
	__u64 key = key_of_cgroup(cgroup);

	if (!cgroup_dismissed(cgroup, key))
		return 0;
	cgroup_fact(cgroup, path, FACT_CGROUP_GONE);
	bpf_map_delete_elem(&newborn, &key);
	if (!(key >> TENANT_HIERARCHY_SHIFT))
		bpf_map_delete_elem(&gpu_tenants, &key);
	return 0;
}

SEC("?tp_btf/cgroup_rename")
int BPF_PROG(cgroup_moved, struct cgroup *cgroup, const char *path)
{
	if (cgroup_renamed(cgroup, key_of_cgroup(cgroup)))
		cgroup_fact(cgroup, path, FACT_CGROUP_MOVED);
	return 0;
}

/* Whether a process that comes to be in this cgroup is one of its first. */
static __always_inline bool_t of_interest(__u64 key)
{
	__u32 *left = bpf_map_lookup_elem(&newborn, &key);

	if (!left || *left == 0)
		return 0;
	__sync_fetch_and_sub(left, 1);
	return 1;
}

static __always_inline bool_t in_newborn(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup *v1 = (void *)v1_cgroup(set);

	return of_interest(BPF_CORE_READ(set, dfl_cgrp, kn, id)) ||
	       (v1 && of_interest(cgroup_key(v1_hierarchy, BPF_CORE_READ(v1, kn, id))));
}

SEC("?tp_btf/cgroup_attach_task")
int BPF_PROG(task_moved, struct cgroup *cgroup, const char *path, struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	__u64 *moved = migrations_of(pid);
	struct fact fact = {};

	if (moved)
		__sync_fetch_and_add(moved, 1);
	if (!of_interest(key_of_cgroup(cgroup)))
		return 0;
	fact.timestamp_ns = bpf_ktime_get_ns();
	fact.kind = FACT_TASK_MOVED;
	fact.pid = pid;
	fact.tid = BPF_CORE_READ(task, pid);
	fact.handle = BPF_CORE_READ(cgroup, kn, id);
	fact.other = BPF_CORE_READ(cgroup, root, hierarchy_id);
	tell_helper(&fact, sizeof(fact));
	return 0;
}

/* A fork inherits the cgroup without entering it. */
SEC("?tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct fact fact = {};

	if (BPF_CORE_READ(child, tgid) != BPF_CORE_READ(child, pid) || !in_newborn(child))
		return 0;
	fact.timestamp_ns = bpf_ktime_get_ns();
	fact.kind = FACT_PROCESS_FORK;
	fact.pid = BPF_CORE_READ(child, tgid);
	fact.tid = fact.pid;
	tell_helper(&fact, sizeof(fact));
	return 0;
}

/* Of the current process; a tenant that starts and ends programs without pause has its share. */
static __always_inline void process_fact(__u16 kind, bool_t followed)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task_btf();
	__u64 pid_tid = bpf_get_current_pid_tgid();
	struct whose whose = {};
	struct fact fact = {};

	whose_task(&whose, task);
	fact.timestamp_ns = bpf_ktime_get_ns();
	fact.kind = kind;
	fact.pid = pid_tid >> 32;
	fact.tid = (__u32)pid_tid;
	fact.cgroup_id = whose.cgroup_id;
	fact.process_start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	if (kind == FACT_PROCESS_EXEC)
		fact.other = BPF_CORE_READ((struct task_struct___placed *)task, nsproxy, mnt_ns, ns.inum);
	if (fact_admitted(births, whose.tenant, PURSE_BIRTHS, QUOTA_births, sizeof(fact)))
		tell_start(&fact);
	if (followed && fact_admitted(identities, whose.tenant, PURSE_IDENTITIES, QUOTA_identities,
				      sizeof(fact)))
		tell_recorder(&fact, sizeof(fact));
}

/* A new program: what the process knew of kernels is gone, and new libraries come. */
SEC("?tp_btf/sched_process_exec")
int BPF_PROG(process_exec)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	bool_t followed = bpf_map_lookup_elem(&processes, &pid) != NULL;

	process_fact(FACT_PROCESS_EXEC, followed);
	if (followed)
		program_drop(bpf_get_current_task_btf(), pid);
	return 0;
}

SEC("?tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);

	/* The last thread of its process, and of a process that we followed. */
	if (BPF_CORE_READ(task, signal, live.counter) > 0)
		return 0;
	if (!bpf_map_lookup_elem(&processes, &pid))
		return 0;
	captures_drop(pid);
	process_drop(pid);
	process_fact(FACT_PROCESS_GONE, 1);
	return 0;
}

struct bpf_iter__task {
	struct task_struct *task;
} BTF;

/* Run by whoever reads it, once all tasks are told. */
SEC("?iter/task")
int sweep(struct bpf_iter__task *ctx)
{
	if (!ctx->task)
		sweep_all();
	return 0;
}
