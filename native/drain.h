/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the native module share. */
#ifndef COTENANT_DRAIN_H
#define COTENANT_DRAIN_H

#include <stddef.h>
#include <stdint.h>

#define KINDS_MAX 32
#define KEY_BYTES_MAX 256
#define KEY_PARTS_MAX 32
#define SECRETS (KEY_BYTES_MAX / 8)	/* of a ring: what keys are hashed with */

/* A BPF ring buffer, mapped: one consumer page, then the producer page and the data twice. */
struct ring {
	uint64_t *consumer;
	const uint64_t *producer;
	const uint8_t *data;
	uint64_t size;
	void *read_write;
	void *read_only;
};

/* Bytes that grow; `failed` once memory ran out. */
struct buffer {
	uint8_t *bytes;
	size_t used;
	size_t room;
};

/* Some bytes of a record, copied into a column as they are. */
struct part {
	uint32_t offset;
	uint32_t width;
};

/* Where a key is found: 1 + its number, and half of its hash, so that few are compared in vain. */
struct slot {
	uint32_t found;
	uint32_t hash;
};

/* Several parts of a record seen as one key; the column holds the number of each distinct one. */
struct key {
	const uint64_t *secrets;
	struct part parts[KEY_PARTS_MAX];
	uint32_t nparts;
	uint32_t width;
	struct buffer codes;	/* int32 per record */
	struct buffer values;	/* width bytes per distinct key */
	struct slot *table;	/* open addressing */
	uint32_t table_size;
	uint32_t count;
	int32_t last;		/* the key of the record before: often the same */
};

/* The columns of one kind of record. */
struct columns {
	struct part *plain;
	struct buffer *plain_data;
	uint32_t nplain;
	struct key *keys;
	uint32_t nkeys;
	uint32_t record_size;	/* shortest record that has all of it */
	uint64_t rows;
};

int ring_map(struct ring *ring, int fd, uint64_t size);
void ring_unmap(struct ring *ring);
uint64_t ring_produced(const struct ring *ring);
uint64_t ring_consumed(const struct ring *ring);
/* The next record below `limit`, NULL if none is complete; `step` is what to release for it. */
const uint8_t *ring_next(const struct ring *ring, uint64_t position, uint64_t limit,
			 uint32_t *length, uint64_t *step);
void ring_release(struct ring *ring, uint64_t position);

/* Room for `count` more bytes. */
int buffer_reserve(struct buffer *buffer, size_t count);
void buffer_shrink(struct buffer *buffer);
int buffer_add(struct buffer *buffer, const void *bytes, size_t count);
int columns_add(struct columns *columns, const uint8_t *record, uint32_t length);
void columns_reset(struct columns *columns);
void columns_free(struct columns *columns);

#endif /* COTENANT_DRAIN_H */
