/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Communicators: who made which, with which rank of how many, and under which name.
 */
#ifndef COTENANT_COMMUNICATOR_BPF_H
#define COTENANT_COMMUNICATOR_BPF_H

#include "common/thread.bpf.h"

/* Arguments are gone when the call returns; they are kept where no row waits meanwhile. */
enum kept {
	KEPT_ID,
	KEPT_CONFIG,
	KEPT_RANK,
	KEPT_NRANKS,
	KEPT_OTHER,
};

#define UNIQUE_ID_WORDS 16
#define COMM_NAME_MAX 128
#define COMMS_MAX 64
/* ncclConfig_t: its own size first, the communicator's name from version 2.27 on. */
#define CONFIG_COMM_NAME 48

struct comm_fact {
	struct fact fact;
	char name[COMM_NAME_MAX];
};

/* A number for the unique id that all ranks of a communicator were given. */
static __always_inline __u64 hash_id(__u64 address)
{
	__u64 words[UNIQUE_ID_WORDS];
	__u64 mixed = 0x9e3779b97f4a7c15ULL;

	if (bpf_probe_read_user(words, sizeof(words), (void *)address)) {
		count(COUNTER_UNREADABLE);
		return 0;
	}
	for (int i = 0; i < UNIQUE_ID_WORDS; i++) {
		mixed = (mixed ^ words[i]) * 0xff51afd7ed558ccdULL;
		mixed ^= mixed >> 32;
	}
	return mixed;
}

static __always_inline void keep_communicator(struct pt_regs *ctx, struct thread *thread,
					      struct frame *frame, const struct call_spec *spec)
{
	__u64 *kept = frame->row.body.words;

	frame->operations = 1;
	kept[KEPT_ID] = 0;
	if (spec->text)
		kept[KEPT_ID] = hash_id(spec->text_out ? slot(thread, spec->text) : ctx->sp + 8);
	kept[KEPT_CONFIG] = spec->config ? slot(thread, spec->config) : 0;
	kept[KEPT_RANK] = slot(thread, spec->rank);
	kept[KEPT_NRANKS] = slot(thread, spec->nranks);
	kept[KEPT_OTHER] = spec->other ? slot(thread, spec->other) : slot(thread, spec->communicator);
}

/* The name that the application gave the communicator; less than one where it gave none. */
static __always_inline long read_name(struct comm_fact *fact, __u64 config)
{
	__u64 size = 0, name = 0;

	if (!config || bpf_probe_read_user(&size, sizeof(size), (void *)config) ||
	    size < CONFIG_COMM_NAME + 8 || size > 4096)
		return 0;
	if (bpf_probe_read_user(&name, sizeof(name), (void *)config + CONFIG_COMM_NAME) || !name)
		return 0;
	return bpf_probe_read_user_str(fact->name, sizeof(fact->name), (void *)name);
}

static __always_inline void tell_communicator(struct thread *thread, struct frame *frame,
					      const struct call_spec *spec, __u64 handle, __s32 rank)
{
	__u64 *kept = frame->row.body.words;
	__u64 pid_tid = bpf_get_current_pid_tgid();
	struct comm_fact *fact;
	long size;

	if (!fact_admitted(facts, thread->whose.tenant, PURSE_FACTS, QUOTA_facts, sizeof(*fact)))
		return;
	fact = bpf_ringbuf_reserve(&facts, sizeof(*fact), 0);
	if (!fact) {
		count(COUNTER_FACT_LOST);
		return;
	}
	__builtin_memset(fact, 0, sizeof(*fact));
	fact->fact.timestamp_ns = bpf_ktime_get_ns();
	fact->fact.process_start_ns = thread->process_start_ns;
	fact->fact.cgroup_id = thread->whose.cgroup_id;
	fact->fact.cgroup_v1_id = thread->whose.v1_id;
	fact->fact.pid = pid_tid >> 32;
	fact->fact.tid = (__u32)pid_tid;
	fact->fact.kind = spec->fact;
	fact->fact.function = frame->function;
	fact->fact.handle = handle;
	fact->fact.other = spec->other ? kept[KEPT_OTHER] : kept[KEPT_ID];
	fact->fact.rank = rank;
	fact->fact.nranks = kept[KEPT_NRANKS];
	size = read_name(fact, kept[KEPT_CONFIG]);
	fact->fact.size = size > 0 && size <= COMM_NAME_MAX ? size - 1 : 0;
	bpf_ringbuf_submit(fact, BPF_RB_NO_WAKEUP);
}

/* One call, several communicators: those of all devices of this process, in order of rank. */
static __always_inline void tell_all(struct thread *thread, struct frame *frame,
				     const struct call_spec *spec)
{
	__u32 ranks = frame->row.body.words[KEPT_NRANKS];
	__u64 first = 0;

	for (__u32 i = 0; i < COMMS_MAX && i < ranks; i++) {
		__u64 handle = 0;

		if (bpf_probe_read_user(&handle, 8, (void *)frame->out + i * 8))
			return;
		if (i == 0)
			first = handle;
		/* No unique id to hash: the first communicator's address serves for all. */
		frame->row.body.words[KEPT_ID] = first ^ thread->process_start_ns;
		tell_communicator(thread, frame, spec, handle, i);
	}
}

static __always_inline void learn(struct thread *thread, struct frame *frame,
				  const struct call_spec *spec)
{
	__u64 *kept = frame->row.body.words;
	__u64 handle = 0;
	__s32 answer = 0;

	switch (spec->fact) {
	case FACT_COMMUNICATOR:
		if (!spec->rank) {
			tell_all(thread, frame, spec);
			return;
		}
		if (!bpf_probe_read_user(&handle, sizeof(handle), (void *)frame->out) && handle)
			tell_communicator(thread, frame, spec, handle, kept[KEPT_RANK]);
		return;
	case FACT_COMM_SPLIT:
		if (!bpf_probe_read_user(&handle, sizeof(handle), (void *)frame->out) && handle)
			tell_communicator(thread, frame, spec, handle,
					  spec->rank ? (__s32)kept[KEPT_RANK] : -1);
		return;
	case FACT_COMM_RANK:
	case FACT_COMM_COUNT:
		if (bpf_probe_read_user(&answer, sizeof(answer), (void *)frame->out))
			return;
		kept[KEPT_NRANKS] = answer;
		tell_communicator(thread, frame, spec, kept[KEPT_OTHER], answer);
		return;
	}
}

#endif /* COTENANT_COMMUNICATOR_BPF_H */
