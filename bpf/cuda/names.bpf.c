// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who is called what: handles of kernels and their names, learned from the calls that look
 * them up, sent once each.
 *
 *   enter  ->  arguments kept in a frame  ->  leave  ->  a fact: name, alias, or end
 */
#include "common/thread.bpf.h"
#include "common/session.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

LAYOUT(call_spec);
FLAGS(call_flags);
NUMBERS(call_number);
VALUES(call_shape);

#define RAW_BYTES 16
/* With what the kernel keeps beside it below 8 KiB: since v7.0 no thread's storage is larger. */
#define NAME_TEXT_MAX 7680

struct text_fact {
	struct fact fact;
	char text[NAME_TEXT_MAX];
};

LAYOUT(unread);

/* Names by the ten thousand, when a big library is loaded: they displace no other fact. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} names SEC(".maps");

/* Whoever can look for them must hurry: the process may not live long. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} unread SEC(".maps");

/* Too large for a program's stack, and a CPU's scratch is not ours alone when preempted. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct text_fact);
} texts SEC(".maps");

/* Of a tenant: as many names as eight ranks with a big library each at once, then as many again. */
#define NAMES_AT_ONCE 262144ULL
#define NAME_EVERY_NS (1000000000ULL / 16384)

/* Whether the tenant may name one more handle: the reader looks at each. */
static __always_inline bool_t name_allowed(__u64 tenant)
{
	struct usage *mine = usage_of(tenant);

	if (!mine)
		return 0;
	if (in_pace(&mine->names_until_ns, NAMES_AT_ONCE, NAME_EVERY_NS))
		return 1;
	__sync_fetch_and_add(&mine->refused[QUOTA_names], 1);
	return 0;
}

/* What a frame keeps of the arguments. */
enum kept {
	KEPT_HANDLE,
	KEPT_TEXT,
	KEPT_OTHER,
	KEPT_RANK,
	KEPT_NRANKS,
};

static __always_inline struct text_fact *text_of_current(void)
{
	return bpf_task_storage_get(&texts, (void *)bpf_get_current_task_btf(), 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* The text at an address, into the fact; less than nothing where it cannot be read. */
static __always_inline long read_text(struct text_fact *fact, __u64 address, bool_t raw)
{
	long size;

	if (raw)
		return bpf_probe_read_user(fact->text, RAW_BYTES, (void *)address) ? -1 : RAW_BYTES;
	size = bpf_probe_read_user_str(fact->text, sizeof(fact->text), (void *)address);
	/* One that fills the room may go on: whoever reads what we cannot gets all of it. */
	if (size < 1 || size >= NAME_TEXT_MAX)
		return -1;
	return size - 1;
}

/* Where the helper can read what we cannot. */
static __always_inline void tell_unread(const struct thread *thread, const struct fact *fact,
					__u64 address)
{
	struct unread where = {
		.process_start_ns = fact->process_start_ns,
		.handle = fact->handle,
		.address = address,
		.pid = fact->pid,
	};

	if (!fact_admitted(unread, thread->whose.tenant, PURSE_UNREAD, QUOTA_unread, sizeof(where)))
		return;
	if (bpf_ringbuf_output(&unread, &where, sizeof(where), 0))
		count(COUNTER_FACT_LOST);
}

/*
 * What a program registers when it is loaded stays where it is. As long as the reader of names
 * does not keep up, only their places are told, which takes a tenth of the room.
 */
static __always_inline bool_t can_wait(const struct call_spec *spec)
{
	return spec->flags & CALL_AT_ENTRY && spec->fact == FACT_NAME &&
	       bpf_ringbuf_query(&names, BPF_RB_AVAIL_DATA) >
		       bpf_ringbuf_query(&names, BPF_RB_RING_SIZE) / 2;
}

static __always_inline void tell(struct thread *thread, struct frame *frame,
				 const struct call_spec *spec)
{
	__u64 pid_tid = bpf_get_current_pid_tgid();
	struct text_fact *fact = text_of_current();
	__u64 text = frame->own.words[KEPT_TEXT];
	long size = 0;

	if (!fact) {
		count(COUNTER_FACT_LOST);
		return;
	}
	refresh_tenant(thread, current_task());
	if (!name_allowed(thread->whose.tenant))
		return;
	__builtin_memset(&fact->fact, 0, sizeof(fact->fact));
	fact->fact.timestamp_ns = bpf_ktime_get_ns();
	fact->fact.process_start_ns = thread->process_start_ns;
	fact->fact.cgroup_id = thread->whose.cgroup_id;
	fact->fact.cgroup_v1_id = thread->whose.v1_id;
	fact->fact.pid = pid_tid >> 32;
	fact->fact.tid = (__u32)pid_tid;
	fact->fact.kind = spec->fact;
	fact->fact.function = frame->function;
	fact->fact.handle = frame->own.words[KEPT_HANDLE];
	fact->fact.other = frame->own.words[KEPT_OTHER];
	fact->fact.rank = frame->own.words[KEPT_RANK];
	fact->fact.nranks = frame->own.words[KEPT_NRANKS];
	if (frame->out && bpf_probe_read_user(&fact->fact.handle, 8, (void *)frame->out))
		count(COUNTER_UNREADABLE);
	if (can_wait(spec)) {
		tell_unread(thread, &fact->fact, text);
		return;
	}
	if (spec->text) {
		if (spec->text_out && bpf_probe_read_user(&text, 8, (void *)text))
			text = 0;
		size = read_text(fact, text, spec->flags & CALL_RAW);
	}
	if (size < 0) {
		count(COUNTER_UNREADABLE);
		if (fact->fact.kind == FACT_NAME)
			tell_unread(thread, &fact->fact, text);
		return;
	}
	fact->fact.size = size;
	if (size >= NAME_TEXT_MAX)
		return;
	if (!fact_admitted(names, thread->whose.tenant, PURSE_NAMES, QUOTA_names,
			   sizeof(struct fact) + size))
		return;
	if (bpf_ringbuf_output(&names, fact, sizeof(struct fact) + size, BPF_RB_NO_WAKEUP))
		count(COUNTER_FACT_LOST);
}

static __always_inline int enter(struct pt_regs *ctx, __u64 cookie)
{
	__u32 function = function_of(cookie);
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	struct task_struct *task;
	struct thread *thread;
	struct frame *frame;

	if (!spec || has_ended(attachment_of(cookie)) || tenant_excluded())
		return SESSION_SKIP;
	task = current_task();
	thread = thread_of(task);
	if (!thread)
		return SESSION_SKIP;
	refresh_tenant(thread, task);
	frame = frame_push(thread, &thread->names, ctx->sp, cookie);
	if (!frame)
		return SESSION_SKIP;
	read_arguments(ctx, thread, spec);
	frame->own.words[KEPT_HANDLE] = slot(thread, spec->handle);
	frame->own.words[KEPT_TEXT] = slot(thread, spec->text);
	frame->own.words[KEPT_OTHER] = slot(thread, spec->other);
	frame->own.words[KEPT_RANK] = slot(thread, spec->rank);
	frame->own.words[KEPT_NRANKS] = slot(thread, spec->nranks);
	frame->out = spec->out ? slot(thread, spec->out) : 0;
	if (!(spec->flags & CALL_AT_ENTRY))
		return SESSION_RETURN;
	thread->names.depth--;
	tell(thread, frame, spec);
	return SESSION_SKIP;
}

static __always_inline int leave(struct pt_regs *ctx, __u64 cookie)
{
	__u32 function = function_of(cookie);
	const struct call_spec *spec = bpf_map_lookup_elem(&functions, &function);
	struct thread *thread = spec ? thread_of(current_task()) : NULL;
	struct frame *frame;

	frame = thread ? frame_pop(&thread->names, ctx->sp) : NULL;
	/* A call that failed has named nothing. */
	if (frame && (__s32)ctx->ax == 0)
		tell(thread, frame, spec);
	return 0;
}

PROGRAMS(names, enter, leave)
