/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What each process holds of GPU memory, kept in the kernel so that no lost row can falsify it.
 *
 *   allocations   (process, address or handle)  ->  bytes: what a free gives back
 *   holdings      (process, context)            ->  live bytes: read by the agent each second
 *
 * Physical memory (cuMemCreate) lives until its last handle and its last mapping are gone.
 */
#ifndef COTENANT_MEMORY_BPF_H
#define COTENANT_MEMORY_BPF_H

#include "cuda/decode.bpf.h"
#include "cuda/holding.h"

#define MAPPINGS_MAX 256	/* that one call takes away */
#define ALLOCATIONS_OF_PROCESS_MAX (1 << 16)	/* nobody takes the room of others */

LAYOUT(allocation_key);
LAYOUT(allocation);
LAYOUT(holding_key);
LAYOUT(holding);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 18);
	__type(key, struct allocation_key);
	__type(value, struct allocation);
} allocations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct holding_key);
	__type(value, struct holding);
} holdings SEC(".maps");

static __always_inline struct allocation_key allocation_key(enum memory_kind kind, __u64 address)
{
	return (struct allocation_key){
		.pid = bpf_get_current_pid_tgid() >> 32,
		.kind = kind,
		.address = address,
	};
}

static __always_inline struct holding *holding_of(const struct thread *thread, __u64 context,
						  bool_t make)
{
	struct holding_key key = {
		.pid = bpf_get_current_pid_tgid() >> 32,
		.process_start_ns = thread->process_start_ns,
		.context = context,
	};
	struct holding *value = bpf_map_lookup_elem(&holdings, &key);
	/* On the stack this would not fit beside the rest. */
	static const struct holding empty;

	if (value || !make)
		return value;
	if (!process_of(key.pid, key.process_start_ns) ||
	    !quota_take(thread->whose.tenant, QUOTA_holdings, 0))
		return NULL;
	if (bpf_map_update_elem(&holdings, &key, &empty, BPF_NOEXIST))
		quota_give(thread->whose.tenant, QUOTA_holdings);
	value = bpf_map_lookup_elem(&holdings, &key);
	if (!value) {
		quota_refused(thread->whose.tenant, QUOTA_holdings);
		return NULL;
	}
	value->cgroup_id = thread->whose.cgroup_id;
	value->cgroup_v1_id = thread->whose.v1_id;
	/* Last: the agent passes over those without. */
	__sync_lock_test_and_set(&value->tenant, thread->whose.tenant);
	return value;
}

static __always_inline void hold(struct holding *value, __s64 bytes)
{
	if (!value)
		return;
	__sync_fetch_and_add(&value->bytes, bytes);
	__sync_fetch_and_add(&value->allocations, bytes > 0 ? 1 : -1);
}

static __always_inline void let_go(const struct thread *thread, __u64 context, __u64 bytes)
{
	hold(holding_of(thread, context, 0), -(__s64)bytes);
}

/* One more entry, or another in the place of one that was never seen to go. */
static __always_inline bool_t allocation_put(const struct allocation_key *key,
					     struct allocation *value)
{
	struct allocation *known = bpf_map_lookup_elem(&allocations, key);

	if (known)
		value->tenant = known->tenant;
	else if (!quota_take(value->tenant, QUOTA_allocations, 0))
		return 0;
	if (!bpf_map_update_elem(&allocations, key, value, known ? BPF_EXIST : BPF_NOEXIST))
		return 1;
	if (!known)
		quota_give(value->tenant, QUOTA_allocations);
	quota_refused(value->tenant, QUOTA_allocations);
	return 0;
}

static __always_inline void allocation_drop(const struct allocation_key *key, __u64 tenant)
{
	if (!bpf_map_delete_elem(&allocations, key))
		quota_give(tenant, QUOTA_allocations);
}

__noinline int memory_add(struct thread *thread, enum memory_kind kind, __u64 address,
			  __u64 bytes, __u64 other)
{
	bool_t held = kind == MEMORY_DEVICE || kind == MEMORY_PHYSICAL;
	struct allocation_key key = allocation_key(kind, address);
	struct allocation value = { .bytes = bytes, .other = other, .references = 1 };
	struct holding *holding;
	bool_t may;

	if (!thread)
		return 0;
	value.process_start_ns = thread->process_start_ns;
	value.context = thread->context;
	value.tenant = thread->whose.tenant;
	holding = holding_of(thread, thread->context, held);
	may = (!holding || holding->allocations < ALLOCATIONS_OF_PROCESS_MAX) &&
	      process_of(key.pid, value.process_start_ns);
	if (!may)
		quota_refused(value.tenant, QUOTA_allocations);
	if (!may || !allocation_put(&key, &value)) {
		/* Its bytes are not known. */
		if (holding && kind != MEMORY_HOST)
			__sync_fetch_and_add(&holding->missed, 1);
		return 0;
	}
	if (held)
		hold(holding, bytes);
	return 0;
}

/* Takes the allocation out; whether this very process had it. */
static __always_inline bool_t memory_take(struct thread *thread, enum memory_kind kind,
					  __u64 address, struct allocation *taken)
{
	struct allocation_key key = allocation_key(kind, address);
	struct allocation *value = bpf_map_lookup_elem(&allocations, &key);

	if (!value)
		return 0;
	*taken = *value;
	allocation_drop(&key, taken->tenant);
	return taken->process_start_ns == thread->process_start_ns;
}

/* One handle or mapping more or less of physical memory. */
static __always_inline void memory_refer(struct thread *thread, __u64 handle, __s32 change)
{
	struct allocation_key key = allocation_key(MEMORY_PHYSICAL, handle);
	struct allocation *value = bpf_map_lookup_elem(&allocations, &key);
	__s32 before;

	if (!value || value->process_start_ns != thread->process_start_ns)
		return;
	before = __sync_fetch_and_add(&value->references, change);
	if (before + change > 0)
		return;
	let_go(thread, value->context, value->bytes);
	allocation_drop(&key, value->tenant);
}

/* Before the driver can give the address to another thread, whose allocation comes first then. */
static __always_inline void memory_enter(struct thread *thread, struct frame *frame,
					 const struct call_spec *spec)
{
	enum memory_kind kind = spec->flags & CALL_HOST ? MEMORY_HOST : MEMORY_DEVICE;
	struct cuda_event *event = cuda_body(&frame->own);
	struct allocation taken = {};

	if (spec->step != STEP_FREE || spec->flags & CALL_CALLER)
		return;
	if (!memory_take(thread, kind, event->address, &taken))
		return;
	set_bytes(event, taken.bytes);
	frame->other = taken.context;
	frame->taken = 1;
}

static __always_inline void free_leave(struct thread *thread, struct frame *frame,
				       const struct call_spec *spec, bool_t succeeded)
{
	enum memory_kind kind = spec->flags & CALL_HOST ? MEMORY_HOST : MEMORY_DEVICE;
	struct cuda_event *event = cuda_body(&frame->own);
	struct allocation taken = {};

	if (spec->flags & CALL_CALLER) {
		/* The driver's own function was probed inside, and has seen to it. */
		if (!succeeded || frame->operations || frame->quiet)
			return;
		if (!memory_take(thread, kind, event->address, &taken))
			return;
		set_bytes(event, taken.bytes);
		frame->other = taken.context;
	} else if (!frame->taken) {
		return;
	}
	if (!succeeded) {
		memory_add(thread, kind, event->address, event->bytes, 0);
		if (kind == MEMORY_DEVICE)
			let_go(thread, thread->context, event->bytes);
		event->known &= ~(1 << CUDA_KNOWN_BYTES);
		event->bytes = 0;
		return;
	}
	if (kind == MEMORY_DEVICE)
		let_go(thread, frame->other, event->bytes);
}

/*
 * How many bytes were mapped here. This and the next are not static: the verifier then looks at
 * each once, and not at every turn of the loop.
 */
__noinline __u64 unmap_one(struct thread *thread, __u64 address)
{
	struct allocation taken = {};

	if (!thread || !memory_take(thread, MEMORY_MAPPING, address, &taken))
		return 0;
	memory_refer(thread, taken.other, -1);
	return taken.bytes;
}

/* All mappings in the range, which has no gaps. */
__noinline int unmap_leave(struct thread *thread, __u64 address, __u64 bytes)
{
	__u64 end = address + bytes, mapped;

	for (int i = 0; i < MAPPINGS_MAX && address < end; i++) {
		mapped = unmap_one(thread, address);
		if (!mapped)
			return 0;
		address += mapped;
	}
	return 0;
}

static __always_inline void release_leave(struct thread *thread, struct cuda_event *event)
{
	struct allocation_key key = allocation_key(MEMORY_PHYSICAL, event->address);
	struct allocation *value = bpf_map_lookup_elem(&allocations, &key);

	if (value && value->process_start_ns == thread->process_start_ns)
		set_bytes(event, value->bytes);
	memory_refer(thread, event->address, -1);
}

/* What a call of the driver did to memory; of the runtime, if no driver call was seen inside. */
static __always_inline void memory_leave(struct thread *thread, struct frame *frame,
					 const struct call_spec *spec, bool_t succeeded)
{
	struct cuda_event *event = cuda_body(&frame->own);

	if (spec->step == STEP_FREE) {
		free_leave(thread, frame, spec, succeeded);
		return;
	}
	if (!succeeded || (spec->flags & CALL_CALLER && (frame->operations || frame->quiet)))
		return;
	switch (spec->step) {
	case STEP_ALLOC:
		if (event->known & 1 << CUDA_KNOWN_BYTES && event->address)
			memory_add(thread, spec->flags & CALL_HOST ? MEMORY_HOST : MEMORY_DEVICE,
				   event->address, event->bytes, 0);
		break;
	case STEP_CREATE:
		memory_add(thread, MEMORY_PHYSICAL, event->address, event->bytes, 0);
		break;
	case STEP_RETAIN:
		memory_refer(thread, event->address, 1);
		break;
	case STEP_RELEASE:
		release_leave(thread, event);
		break;
	case STEP_MAP:
		memory_refer(thread, frame->other, 1);
		memory_add(thread, MEMORY_MAPPING, event->address, event->bytes, frame->other);
		break;
	case STEP_UNMAP:
		unmap_leave(thread, event->address, event->bytes);
		break;
	}
}

/* Emptied, not removed: the agent must see that it fell to nothing. */
static __always_inline void holding_empty(struct holding *value)
{
	__sync_lock_test_and_set(&value->bytes, 0);
	__sync_lock_test_and_set(&value->allocations, 0);
	__sync_lock_test_and_set(&value->missed, 0);
	__sync_fetch_and_add(&value->dropped, 1);
}

/* All that a context held is gone with it. */
static __always_inline void memory_drop(const struct thread *thread, __u64 context)
{
	struct holding_key key = {
		.pid = bpf_get_current_pid_tgid() >> 32,
		.process_start_ns = thread->process_start_ns,
		.context = context,
	};
	struct holding *value = bpf_map_lookup_elem(&holdings, &key);

	if (value)
		holding_empty(value);
}

#endif /* COTENANT_MEMORY_BPF_H */
