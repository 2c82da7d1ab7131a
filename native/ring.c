// SPDX-License-Identifier: Apache-2.0
/*
 * The consumer's side of a BPF ring buffer.
 *
 * Every producer, on any CPU, reserves a record (its header says BUSY), fills it and clears BUSY.
 * Positions only grow. What makes this safe without a lock:
 *
 *   producer position   read with acquire: the headers below it are written
 *   header              read with acquire: without BUSY, the record's bytes are written
 *   consumer position   written with release: our reads are done before the space is given back
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drain.h"

#define RECORD_BUSY (1U << 31)
#define RECORD_DISCARD (1U << 30)
#define RECORD_HEADER 8

int ring_map(struct ring *ring, int fd, uint64_t size)
{
	long page = sysconf(_SC_PAGESIZE);

	ring->size = size;
	ring->read_write = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring->read_write == MAP_FAILED) {
		ring->read_write = NULL;
		return -errno;
	}
	ring->read_only = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, fd, page);
	if (ring->read_only == MAP_FAILED) {
		int error = errno;

		ring->read_only = NULL;
		ring_unmap(ring);
		return -error;
	}
	ring->consumer = ring->read_write;
	ring->producer = ring->read_only;
	ring->data = (const uint8_t *)ring->read_only + page;
	return 0;
}

void ring_unmap(struct ring *ring)
{
	long page = sysconf(_SC_PAGESIZE);

	if (ring->read_write)
		munmap(ring->read_write, page);
	if (ring->read_only)
		munmap(ring->read_only, page + 2 * ring->size);
	ring->read_write = NULL;
	ring->read_only = NULL;
}

uint64_t ring_produced(const struct ring *ring)
{
	return atomic_load_explicit((const _Atomic uint64_t *)ring->producer, memory_order_acquire);
}

uint64_t ring_consumed(const struct ring *ring)
{
	return atomic_load_explicit((_Atomic uint64_t *)ring->consumer, memory_order_relaxed);
}

const uint8_t *ring_next(const struct ring *ring, uint64_t position, uint64_t limit,
			 uint32_t *length, uint64_t *step)
{
	const uint8_t *record;
	uint32_t header;

	while (position + *step < limit) {
		record = ring->data + ((position + *step) & (ring->size - 1));
		header = atomic_load_explicit((const _Atomic uint32_t *)record, memory_order_acquire);
		if (header & RECORD_BUSY)
			return NULL;
		*length = header & ~(RECORD_BUSY | RECORD_DISCARD);
		*step += (RECORD_HEADER + *length + 7) & ~7ULL;
		if (!(header & RECORD_DISCARD))
			return record + RECORD_HEADER;
	}
	return NULL;
}

void ring_release(struct ring *ring, uint64_t position)
{
	atomic_store_explicit((_Atomic uint64_t *)ring->consumer, position, memory_order_release);
}
