/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf/kernel/waits.bpf.h as a program, for one CPU. Each line of its input is a run or a wait that
 * ends, `r TENANT NOW` or `w TENANT BEGAN NOW`; then it says who waited for whom, and what was
 * refused.
 */
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Instead of common/sched.bpf.h. */
#define COTENANT_SCHED_BPF_H
#define __always_inline inline
#define __noinline
#define __uint(name, value) int (*name)[value]
#define __type(name, value) value *name
#define SEC(name)
#define LAYOUT(name)
#define barrier_var(value) __asm__ volatile("" : "+r"(value))
enum { HOST_STATE_R, QUOTA_contention, COUNTER_CONTENTION_FULL };
typedef int bool_t;

struct sched_task {
	struct {
		__u64 cgroup_id;
		__u64 v1_id;
		__u64 tenant;
	} whose;
	__u64 nobody_ns;
	__u64 had_ns;
	__u64 had_cgroup_id;
	__u64 had_v1_id;
	__u64 off_since;
	__u64 runnable_since;
	int state;
};

static void *bpf_map_lookup_elem(const void *map, const void *key);
static int bpf_map_update_elem(const void *map, const void *key, const void *value, int flags);
static unsigned long refused, full;

static int has_outermost(__u64 tenant)
{
	return tenant != 1;
}

static int quota_take(__u64 tenant, int quota, int spare)
{
	return 1;
}

static void quota_give(__u64 tenant, int quota)
{
}

static void quota_refused(__u64 tenant, int quota)
{
	printf("refused %llu 0 1\n", tenant);
	refused++;
}

static void count(int counter)
{
	full++;
}

#include "kernel/waits.bpf.h"

#define PAIRS (1 << 20)	/* more than there will be */
#define TASKS (1 << 12)

static struct cpu_runs one_cpu;
static struct {
	struct contention_key key;
	struct contention value;
} pairs[PAIRS];

static size_t pair_of(const struct contention_key *key)
{
	size_t at = key->cgroup_id * 4099 + key->peer_cgroup_id;

	while (pairs[at % PAIRS].key.cgroup_id && memcmp(&pairs[at % PAIRS].key, key, sizeof(*key)))
		at++;
	return at % PAIRS;
}

static void *bpf_map_lookup_elem(const void *map, const void *key)
{
	size_t at;

	if (map == &cpu_runs)
		return &one_cpu;
	at = pair_of(key);
	return pairs[at].key.cgroup_id ? &pairs[at].value : NULL;
}

static int bpf_map_update_elem(const void *map, const void *key, const void *value, int flags)
{
	size_t at = pair_of(key);

	memcpy(&pairs[at].key, key, sizeof(pairs[at].key));
	memcpy(&pairs[at].value, value, sizeof(pairs[at].value));
	return 0;
}

static struct sched_task tasks[TASKS];

/* One thread for each tenant. */
static struct sched_task *task_of(__u64 tenant)
{
	struct sched_task *task = &tasks[tenant % TASKS];

	while (task->whose.tenant && task->whose.tenant != tenant)
		task = task == &tasks[TASKS - 1] ? tasks : task + 1;
	task->whose.cgroup_id = tenant;
	task->whose.tenant = tenant;
	return task;
}

int main(void)
{
	unsigned long long tenant, began, now;
	char what[2];

	one_cpu.since = 1;
	while (scanf("%1s %llu %llu", what, &tenant, &now) == 3) {
		if (*what == 'r') {
			run_ends(&one_cpu, tenant ? task_of(tenant) : NULL, now);
			continue;
		}
		began = now;
		if (scanf("%llu", &now) != 1)
			return 1;
		wait_ends(0, task_of(tenant), began, now, 0);
	}
	for (size_t i = 0; i < TASKS; i++)
		say_contention(&tasks[i]);
	for (size_t i = 0; i < PAIRS; i++)
		if (pairs[i].key.cgroup_id)
			printf("waited %llu %llu %llu\n", pairs[i].key.cgroup_id,
			       pairs[i].key.peer_cgroup_id, pairs[i].value.waited_ns);
	return refused != full;
}
