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
 * counted, and the next row of the same function and second says for how many it stands. What no
 * row carries by the end of the second, the agent writes as a row of its own. Of a tenant that
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
 * The recorded calls that a thread may have: `budget_calls` a second, saved for BUDGET_SAVED_S.
 * Until what is saved is spent, all its calls are recorded. Then each is by chance, at a rate by
 * the calls of the last second; what that comes to beyond the budget is owed by the next ones.
 */
#define BUDGET_SECOND_NS 1000000000ULL
#define BUDGET_SAVED_S 10
#define BUDGET_LOOK_EVERY 256	/* calls, a power of two, between looks at the clock; while all are recorded */
#define BUDGET_ALWAYS 65536

struct budget {
	__u64 since_ns;		/* as of when it is settled */
	__s64 saved;		/* calls; less than 0 is owed */
	__u64 calls;		/* since then */
	__u64 chance;		/* in 65536ths; 0 while all calls are recorded */
};

/* A thread has saved since it began, and has a second's worth besides. */
static __always_inline void budget_begin(struct budget *budget, __u64 began_ns)
{
	budget->since_ns = began_ns - BUDGET_SECOND_NS;
}

/* What it earned since, and how its calls go on. Global, so that it is verified once. */
__noinline int budget_settle(struct budget *budget, __u64 now)
{
	struct control *page = control();
	__u64 passed, rate, left, second;
	__s64 most;

	if (!budget || !page)
		return 0;
	second = page->budget_calls;
	most = second * BUDGET_SAVED_S;
	passed = now - budget->since_ns;
	if (passed > BUDGET_SAVED_S * BUDGET_SECOND_NS)
		passed = BUDGET_SAVED_S * BUDGET_SECOND_NS;
	rate = budget->calls * BUDGET_SECOND_NS / (passed | 1);
	budget->saved += second * passed / BUDGET_SECOND_NS;
	if (budget->saved > most)
		budget->saved = most;
	if (budget->saved < -most)
		budget->saved = -most;
	budget->since_ns = now;
	budget->calls = 0;
	if (budget->saved >= (__s64)(budget->chance ? second : 1)) {
		budget->chance = 0;
		return 0;
	}
	/* Of this second's, no less than an eighth, so that there are rows in each. */
	left = second / 8;
	if (budget->saved + (__s64)second > (__s64)left)
		left = budget->saved + second;
	budget->chance = rate <= left ? 0 : left * BUDGET_ALWAYS / rate | 1;
	return 0;
}

/* Whether the second of a thread whose calls are recorded by chance is over, or spent. */
static __always_inline bool_t budget_due(const struct budget *budget, __u64 second, __u64 now)
{
	__u64 passed = now - budget->since_ns;

	if (passed >= BUDGET_SECOND_NS)
		return 1;
	return budget->saved < -(__s64)(second + second / 8) && passed >= BUDGET_SECOND_NS / 16;
}

/* Whether the thread's budget has room for one more recorded call, and takes it. */
static __always_inline bool_t budget_allows(struct budget *budget)
{
	struct control *page = control();
	__u64 now;

	if (!page || !page->budget_calls)
		return 1;
	budget->calls++;
	if (!budget->chance) {
		budget->saved--;
		if (budget->calls & (BUDGET_LOOK_EVERY - 1) && budget->saved > 0)
			return 1;
		budget_settle(budget, bpf_ktime_get_ns());
		return 1;
	}
	now = bpf_ktime_get_ns();
	if (budget_due(budget, page->budget_calls, now))
		budget_settle(budget, now);
	if (budget->chance && (bpf_get_prandom_u32() & (BUDGET_ALWAYS - 1)) >= budget->chance)
		return 0;
	budget->saved--;
	return 1;
}

/* A row that was not sent and has no total to count it: it is counted for the tenant. */
__noinline int row_orphaned(__u64 tenant, __u32 counter)
{
	count(counter);
	quota_refuse(tenant, QUOTA_unsent);
	return 0;
}

/* The next row stands for it too, if that comes in the same window and is of the same size. */
static __always_inline void wait_for_row(struct total *total, __u64 bytes)
{
	struct control *now = control();
	__u64 before = total->waiting;

	if (!now)
		return;
	if (before >> WAITING_BITS == (__u32)now->window && total->waiting_bytes == bytes) {
		__sync_fetch_and_add(&total->waiting, 1);
		return;
	}
	/* Those that waited before are in no weight: the agent finds them by what was carried. */
	total->waiting_bytes = bytes;
	__sync_val_compare_and_swap(&total->waiting, before, now->window << WAITING_BITS | 1);
}

/* An event that was to become a row, and is left out. */
static __always_inline void shed(struct total *total, __u64 tenant, __u64 bytes)
{
	if (!total) {
		row_orphaned(tenant, COUNTER_ORPHAN_SHED);
		return;
	}
	__sync_fetch_and_add(&total->shed, 1);
	if (bytes)
		__sync_fetch_and_add(&total->shed_bytes, bytes);
	wait_for_row(total, bytes);
}

/*
 * Events that were to become rows, and for which the budget of kernel events had no room: no row's
 * weight has them, since they are told later.
 */
static __always_inline void withhold(struct total *total, __u64 events)
{
	__sync_fetch_and_add(&total->rows, events);
	__sync_fetch_and_add(&total->shed, events);
	__sync_fetch_and_add(&total->withheld, events);
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

/* The weight of a row where events wait for one: those of its own window, and of its own size. */
static __noinline __u32 row_carries(struct total *total, __u64 began_ns, __u64 bytes)
{
	struct control *now = control();
	__u64 before, events, kept;

	if (!total || !now)
		return 1;
	before = total->waiting;
	events = (__u32)before;
	kept = now->window << WAITING_BITS;
	if (before >> WAITING_BITS == (__u32)now->window) {
		/* A call that began before would take them to another second. */
		if (began_ns < now->window_ns || total->waiting_bytes != bytes)
			return 1;
	} else {
		events = 0;
	}
	if (__sync_val_compare_and_swap(&total->waiting, before, kept) != before)
		return 1;
	__sync_fetch_and_add(&total->carried, events);
	__sync_fetch_and_add(&total->carried_bytes, events * bytes);
	return 1 + events;
}

/* How many events the row that is being written stands for. */
static __always_inline __u32 row_weight(struct total *total, __u64 began_ns, __u64 bytes)
{
	return total && (__u32)total->waiting ? row_carries(total, began_ns, bytes) : 1;
}

/*
 * Room in the ring for one row of a tenant, or NULL: then it was shed or lost, and is counted.
 * A macro, because the verifier wants to see the size.
 */
#define row_begin(total, tenant, size, bytes)                                                      \
	({                                                                                         \
		void *begun = NULL;                                                                \
                                                                                                   \
		row_seen(total);                                                                   \
		if (!admitted(tenant, size)) {                                                     \
			shed(total, tenant, bytes);                                                \
		} else {                                                                           \
			begun = bpf_ringbuf_reserve(&events, size, 0);                             \
			if (!begun)                                                                \
				row_lost(total, tenant);                                           \
		}                                                                                  \
		begun;                                                                             \
	})

#endif /* COTENANT_SHARE_BPF_H */
