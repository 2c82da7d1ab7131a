/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who may put a row into the ring.
 *
 * The lower part of the ring is anybody's. Above the mark, each tenant spends credit: at most its
 * share of the upper part, and it gets the same share of whatever the reader frees. So
 *
 *     bytes in the ring + credit of all tenants <= size of the ring
 *
 * and a tenant with credit finds room, whatever others do. One without is shed: its events are
 * counted, and the next row of the same function says for how many it stands. Of a tenant that
 * ran out before, rows are left out at random near the end of its credit, so that those which
 * stay are spread over time.
 *
 * A tenant has one purse for its GPU calls, and one for each kind of event that the kernel raises
 * for it: its switches cost it no I/O. The kernel's mark is lower and its shares are smaller, so
 * that a storm of switches leaves GPU calls their room.
 */
#ifndef COTENANT_SHARE_BPF_H
#define COTENANT_SHARE_BPF_H

#include "common/total.bpf.h"

/* What the reader freed since the tenant was last credited; 0 where another CPU credits it. */
static __always_inline __u64 newly_freed(__u64 *credited, __u64 consumed)
{
	__u64 before = *credited;

	if (before == consumed ||
	    __sync_val_compare_and_swap(credited, before, consumed) != before)
		return 0;
	/* All of it, the first time. */
	return before ? consumed - before : ~0ULL;
}

/* Its part of what the reader freed, at most its share. */
static __always_inline void credit_refill(struct usage *mine, __u32 purse, __u64 consumed,
					  __u64 share, __u64 divided)
{
	/* A ring that was never read has freed nothing: one byte tells it from a new purse. */
	__u64 freed = newly_freed(&mine->credit_consumed[in_array(purse, PURSES)], consumed + 1);
	__s64 bytes = mine->credit_bytes[in_array(purse, PURSES)];

	if (!freed)
		return;
	if (bytes >= (__s64)(share / 2))
		mine->credit_ran_out[in_array(purse, PURSES)] = 0;
	bytes += freed < divided ? freed * share / divided : share;
	mine->credit_bytes[in_array(purse, PURSES)] = bytes < (__s64)share ? bytes : (__s64)share;
}

/* Whether a record fits into what a tenant may have of the upper part of a ring. */
static __always_inline bool_t credit_spend(__u64 tenant, __u32 purse, __u32 size, __u64 consumed,
					   __u64 share, __u64 divided)
{
	struct usage *mine = usage_of(tenant);
	__s64 bytes;

	if (!mine)
		return 0;
	credit_refill(mine, purse, consumed, share, divided);
	bytes = mine->credit_bytes[in_array(purse, PURSES)];
	if (bytes < size) {
		mine->credit_ran_out[in_array(purse, PURSES)] = 1;
		return 0;
	}
	if (mine->credit_ran_out[in_array(purse, PURSES)] && bytes < share / 2 &&
	    bpf_get_prandom_u32() % (__u32)(share / 2 + 1) > (__u32)bytes)
		return 0;
	__sync_fetch_and_add(&mine->credit_bytes[in_array(purse, PURSES)], -(__s64)size);
	return 1;
}

__noinline int has_credit(__u64 tenant, __u32 purse, __u32 size)
{
	struct control *now = control();

	if (!now)
		return 1;
	return credit_spend(tenant, purse, size, bpf_ringbuf_query(&events, BPF_RB_CONS_POS),
			    purse == PURSE_CALLS ? now->share_bytes : now->kernel_share_bytes,
			    now->divided_bytes);
}

/* Of a ring of facts the upper half is divided, in as many parts as that of GPU calls. */
__noinline int has_fact_credit(__u64 tenant, __u32 purse, __u32 size, __u64 consumed, __u64 divided)
{
	struct control *now = control();

	if (!now || !now->divided_bytes)
		return 1;
	return credit_spend(tenant, purse, size, consumed,
			    divided * now->share_bytes / now->divided_bytes, divided);
}

/* Whether a tenant may put this fact into this ring; what it may not is counted for it. */
#define fact_admitted(ring, tenant, purse, quota, bytes)                                           \
	({                                                                                         \
		__u64 half = bpf_ringbuf_query(&ring, BPF_RB_RING_SIZE) / 2;                       \
		bool_t may = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) <= half ||                \
			     has_fact_credit(tenant, purse, (bytes) + 8,                           \
					     bpf_ringbuf_query(&ring, BPF_RB_CONS_POS), half);     \
                                                                                                   \
		if (!may)                                                                          \
			quota_refuse(tenant, quota);                                               \
		may;                                                                               \
	})

/* Whether a GPU call of this tenant may become a row. */
static __always_inline bool_t admitted(__u64 tenant, __u32 size)
{
	struct control *now = control();

	if (!now || !now->shed_above)
		return 1;
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) <= now->shed_above)
		return 1;
	return has_credit(tenant, PURSE_CALLS, size + 8);
}

/*
 * Whether the thread has had its budget of recorded calls for this second. The clock is read only
 * when the budget is used up; a thread within it pays a comparison.
 */
#define BUDGET_WINDOW_NS 1000000000ULL

struct budget {
	__u64 since_ns;
	__u64 calls;
};

static __always_inline bool_t over_budget(struct budget *budget)
{
	struct control *control_now = control();
	__u64 now;

	if (!control_now || !control_now->budget_calls)
		return 0;
	if (++budget->calls <= control_now->budget_calls)
		return 0;
	now = bpf_ktime_get_ns();
	if (now - budget->since_ns < BUDGET_WINDOW_NS)
		return 1;
	budget->since_ns = now;
	budget->calls = 1;
	return 0;
}

/* A row that was not sent and has no total to count it: it is counted for the tenant. */
__noinline int row_orphaned(__u64 tenant, __u32 counter)
{
	count(counter);
	quota_refuse(tenant, QUOTA_unsent);
	return 0;
}

/* An event that was to become a row, and is left out: the next row stands for it, too. */
static __always_inline void shed(struct total *total, __u64 tenant)
{
	if (!total) {
		row_orphaned(tenant, COUNTER_ORPHAN_SHED);
		return;
	}
	__sync_fetch_and_add(&total->shed, 1);
	__sync_fetch_and_add(&total->waiting, 1);
}

/* One more event that is to become a row: counted before anything can go wrong with it. */
static __always_inline void row_seen(struct total *total)
{
	if (total)
		__sync_fetch_and_add(&total->rows, 1);
	else
		count(COUNTER_ORPHAN_ROWS);
}

static __always_inline void row_lost(struct total *total, __u64 tenant)
{
	if (total)
		__sync_fetch_and_add(&total->lost, 1);
	else
		row_orphaned(tenant, COUNTER_ORPHAN_LOST);
}

/* How many events the row that is being written stands for. */
static __always_inline __u32 row_weight(struct total *total)
{
	if (!total || !total->waiting)
		return 1;
	return 1 + __sync_lock_test_and_set(&total->waiting, 0);
}

/* A row that stood for others was not sent: the next one does. */
static __always_inline void row_unsent(struct total *total, __u32 weight)
{
	if (total && weight > 1)
		__sync_fetch_and_add(&total->waiting, weight - 1);
}

/*
 * Room in the ring for one row of a tenant, or NULL: then it was shed or lost, and is counted.
 * A macro, because the verifier wants to see the size.
 */
#define row_begin(total, tenant, size)                                                             \
	({                                                                                         \
		void *begun = NULL;                                                                \
                                                                                                   \
		row_seen(total);                                                                   \
		if (!admitted(tenant, size)) {                                                     \
			shed(total, tenant);                                                       \
		} else {                                                                           \
			begun = bpf_ringbuf_reserve(&events, size, 0);                             \
			if (!begun)                                                                \
				row_lost(total, tenant);                                           \
		}                                                                                  \
		begun;                                                                             \
	})

#endif /* COTENANT_SHARE_BPF_H */
