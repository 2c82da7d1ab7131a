/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CUDA context that each thread uses: it tells the device. Contexts stack, and the primary
 * one of a device is shared by the whole process and counted.
 */
#ifndef COTENANT_CONTEXT_BPF_H
#define COTENANT_CONTEXT_BPF_H

#include "cuda/memory.bpf.h"

struct primary_key {
	__u32 pid;
	__u32 device;
};

struct primary {
	__u64 context;
	__u64 process_start_ns;
	__u64 references;
	__u64 tenant;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct primary_key);
	__type(value, struct primary);
} primaries SEC(".maps");

static __always_inline void context_push(struct thread *thread, __u64 context)
{
	__u32 depth = thread->contexts_depth;

	if (depth < CONTEXTS_MAX)
		thread->contexts[depth] = thread->context;
	thread->contexts_depth = depth + 1;
	thread->context = context;
}

static __always_inline void context_pop(struct thread *thread)
{
	__u64 depth = thread->contexts_depth;

	thread->context = 0;
	if (!depth--)
		return;
	thread->contexts_depth = depth;
	/* Compared as 64 bits: verifiers do not see that 32 of them bound the index. */
	barrier_var(depth);
	if (depth < CONTEXTS_MAX)
		thread->context = thread->contexts[depth];
}

static __always_inline void context_destroy(struct thread *thread, __u64 context)
{
	memory_drop(thread, context);
	if (thread->context == context)
		context_pop(thread);
}

static __always_inline void primary_drop(const struct primary_key *key, __u64 tenant)
{
	if (!bpf_map_delete_elem(&primaries, key))
		quota_give(tenant, QUOTA_primaries);
}

static __always_inline void primary_retain(struct thread *thread, __u32 device, __u64 context)
{
	struct primary_key key = { .pid = bpf_get_current_pid_tgid() >> 32, .device = device };
	struct primary *known = bpf_map_lookup_elem(&primaries, &key);
	struct primary value = {
		.context = context,
		.process_start_ns = thread->process_start_ns,
		.references = 1,
		.tenant = thread->whose.tenant,
	};

	if (known && known->process_start_ns == thread->process_start_ns &&
	    known->context == context) {
		__sync_fetch_and_add(&known->references, 1);
		return;
	}
	if (known)
		primary_drop(&key, known->tenant);
	if (quota_take(value.tenant, QUOTA_primaries, 0) &&
	    bpf_map_update_elem(&primaries, &key, &value, BPF_NOEXIST)) {
		quota_give(value.tenant, QUOTA_primaries);
		quota_refused(value.tenant, QUOTA_primaries);
	}
}

/* The last release of a primary context destroys it; a reset does so at once. */
static __always_inline void primary_release(struct thread *thread, __u32 device, bool_t reset)
{
	struct primary_key key = { .pid = bpf_get_current_pid_tgid() >> 32, .device = device };
	struct primary *known = bpf_map_lookup_elem(&primaries, &key);

	if (!known || known->process_start_ns != thread->process_start_ns)
		return;
	if (!reset && __sync_fetch_and_add(&known->references, -1) > 1)
		return;
	memory_drop(thread, known->context);
	if (!reset)
		primary_drop(&key, known->tenant);
}

/* What a successful call does to the thread's contexts. */
static __always_inline void context_leave(struct thread *thread, struct frame *frame,
					  const struct call_spec *spec)
{
	__u64 context = cuda_body(&frame->own)->address;

	switch (spec->step) {
	case STEP_CONTEXT_SET:
		thread->context = context;
		break;
	case STEP_CONTEXT_CREATE:
	case STEP_CONTEXT_PUSH:
		context_push(thread, context);
		break;
	case STEP_CONTEXT_POP:
		context_pop(thread);
		break;
	case STEP_CONTEXT_DESTROY:
		context_destroy(thread, context);
		break;
	case STEP_PRIMARY_RETAIN:
		primary_retain(thread, frame->other, context);
		break;
	case STEP_PRIMARY_RELEASE:
		primary_release(thread, frame->other, 0);
		break;
	case STEP_PRIMARY_RESET:
		primary_release(thread, frame->other, 1);
		break;
	}
}

#endif /* COTENANT_CONTEXT_BPF_H */
