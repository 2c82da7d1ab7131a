/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are mapped as code, from perf's records: those that are settled are dropped here.
 *
 * Settled is a file, by device, inode, generation and path, for the processes of one cgroup: the
 * helper has read it for their tenant, and it is of no interest. A record that is dropped settles
 * the file in the kernel, too, which then does not wake the helper for it any more.
 */
#ifndef COTENANT_SIGHTINGS_H
#define COTENANT_SIGHTINGS_H

#include <pthread.h>

#include "../bpf/kernel/sighting.h"
#include "drain.h"

#define FRESH_MAX 256
#define OWNERS 64	/* a power of two */

struct perf_buffer {
	uint8_t *page;
	uint64_t size;		/* of its data, a power of two */
};

/* The cgroups of a process, read once for each turn. */
struct owner {
	uint32_t pid;
	uint64_t whose;
};

struct passed {
	uint64_t mark;		/* its last bit: the process has ended */
	uint64_t size;
};

struct sightings {
	struct perf_buffer *buffers;
	uint32_t nbuffers;
	struct ring news;	/* what woke us; not mapped without the kernel's program */
	int settled_fd;
	struct sighting fresh[FRESH_MAX];
	uint32_t nfresh;
	struct owner owners[OWNERS];
	uint64_t secret;
	pthread_mutex_t lock;	/* of `marks` */
	uint64_t *marks;
	uint32_t nmarks;
	uint64_t lost;
	uint64_t taken;		/* bytes of all records so far */
	struct buffer passed;	/* struct passed and a record, again and again */
};

int sightings_begin(struct sightings *all);
void sightings_end(struct sightings *all);
int sightings_open(struct sightings *all, int fd, uint64_t size);
/* Everything since the last time into `passed`; negative without memory. */
int sightings_read(struct sightings *all);
void sightings_settle(struct sightings *all, uint64_t mark);
void sightings_clear(struct sightings *all);

#endif /* COTENANT_SIGHTINGS_H */
