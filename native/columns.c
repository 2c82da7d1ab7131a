// SPDX-License-Identifier: Apache-2.0
/*
 * Records into columns: each part of a record goes to the end of its column, and tuples of parts
 * that identify something (a tenant, a kernel of a process) are numbered, so that what costs time
 * is done once per distinct value and not once per event.
 */
#include <stdlib.h>
#include <string.h>

#include "drain.h"
#include "table.h"

#define ROOM_FIRST 4096
#define TABLE_FIRST 256

int buffer_reserve(struct buffer *buffer, size_t count)
{
	size_t room = buffer->room ? buffer->room : ROOM_FIRST;
	uint8_t *grown;

	if (buffer->used + count <= buffer->room)
		return 0;
	while (room < buffer->used + count)
		room *= 2;
	grown = realloc(buffer->bytes, room);
	if (!grown)
		return -1;
	buffer->bytes = grown;
	buffer->room = room;
	return 0;
}

/* Keep no more room than four times what is used: a tenant may have filled many of them once. */
void buffer_shrink(struct buffer *buffer)
{
	size_t room = ROOM_FIRST;
	uint8_t *shrunk;

	while (room < 2 * buffer->used)
		room *= 2;
	if (buffer->room < 2 * room)
		return;
	shrunk = realloc(buffer->bytes, room);
	if (!shrunk)
		return;
	buffer->bytes = shrunk;
	buffer->room = room;
}

int buffer_add(struct buffer *buffer, const void *bytes, size_t count)
{
	if (buffer_reserve(buffer, count))
		return -1;
	if (count == 8)
		memcpy(buffer->bytes + buffer->used, bytes, 8);
	else if (count == 4)
		memcpy(buffer->bytes + buffer->used, bytes, 4);
	else
		memcpy(buffer->bytes + buffer->used, bytes, count);
	buffer->used += count;
	return 0;
}

/*
 * Keys are padded to whole words. Tenants choose most of them, so each word has a secret number that
 * is added to it before two and two are multiplied: whatever two keys are, as long as that is not
 * known, their sums are the same with a chance of 2^-64 (NH, as in UMAC, RFC 4418).
 */
static uint64_t hash(const struct key *key, const uint8_t *bytes)
{
	const uint64_t *secret = key->secrets;
	unsigned __int128 sum = 0;
	uint64_t pair[2];
	uint32_t at = 0;

	for (; at + 16 <= key->width; at += 16, secret += 2) {
		memcpy(pair, bytes + at, 16);
		sum += (unsigned __int128)(pair[0] + secret[0]) * (pair[1] + secret[1]);
	}
	if (at < key->width) {
		memcpy(pair, bytes + at, 8);
		sum += (unsigned __int128)(pair[0] + secret[0]) * secret[1];
	}
	return scramble(scramble(key->secrets[0], sum), sum >> 64);
}

static const uint8_t *key_value(const struct key *key, uint32_t code)
{
	return key->values.bytes + (size_t)code * key->width;
}

static int table_grow(struct key *key)
{
	uint32_t size = key->table_size ? key->table_size * 2 : TABLE_FIRST;
	struct slot *table = calloc(size, sizeof(*table));

	if (!table)
		return -1;
	for (uint32_t code = 0; code < key->count; code++) {
		uint64_t hashed = hash(key, key_value(key, code));
		uint64_t at = hashed;

		while (table[at & (size - 1)].found)
			at++;
		table[at & (size - 1)] = (struct slot){code + 1, hashed >> 32};
	}
	free(key->table);
	key->table = table;
	key->table_size = size;
	return 0;
}

/* The number of this key, a new one if it was never seen; -1 without memory. */
static int32_t key_code(struct key *key, const uint8_t *value)
{
	uint64_t hashed, at;

	if (key->count && !memcmp(key_value(key, key->last), value, key->width))
		return key->last;
	if (key->count * 2 >= key->table_size && table_grow(key))
		return -1;
	hashed = hash(key, value);
	for (at = hashed;; at++) {
		struct slot *slot = &key->table[at & (key->table_size - 1)];

		if (!slot->found) {
			if (buffer_add(&key->values, value, key->width))
				return -1;
			*slot = (struct slot){++key->count, hashed >> 32};
			return key->count - 1;
		}
		if (slot->hash == hashed >> 32 &&
		    !memcmp(key_value(key, slot->found - 1), value, key->width))
			return slot->found - 1;
	}
}

static int key_add(struct key *key, const uint8_t *record)
{
	uint8_t value[KEY_BYTES_MAX];
	uint32_t filled = 0;
	int32_t code;

	memset(value + key->width - 8, 0, 8);
	for (uint32_t i = 0; i < key->nparts; i++) {
		memcpy(value + filled, record + key->parts[i].offset, key->parts[i].width);
		filled += key->parts[i].width;
	}
	code = key_code(key, value);
	if (code < 0)
		return -1;
	key->last = code;
	return buffer_add(&key->codes, &code, sizeof(code));
}

int columns_add(struct columns *columns, const uint8_t *record, uint32_t length)
{
	if (length < columns->record_size)
		return -1;
	for (uint32_t i = 0; i < columns->nplain; i++)
		if (buffer_add(&columns->plain_data[i], record + columns->plain[i].offset,
			       columns->plain[i].width))
			return -1;
	for (uint32_t i = 0; i < columns->nkeys; i++)
		if (key_add(&columns->keys[i], record))
			return -1;
	columns->rows++;
	return 0;
}

void columns_reset(struct columns *columns)
{
	for (uint32_t i = 0; i < columns->nplain; i++)
		columns->plain_data[i].used = 0;
	for (uint32_t i = 0; i < columns->nkeys; i++) {
		struct key *key = &columns->keys[i];

		key->codes.used = 0;
		key->values.used = 0;
		key->count = 0;
		key->last = 0;
		if (key->table)
			memset(key->table, 0, key->table_size * sizeof(*key->table));
	}
	columns->rows = 0;
}

void columns_free(struct columns *columns)
{
	for (uint32_t i = 0; i < columns->nplain; i++)
		free(columns->plain_data[i].bytes);
	for (uint32_t i = 0; i < columns->nkeys; i++) {
		free(columns->keys[i].codes.bytes);
		free(columns->keys[i].values.bytes);
		free(columns->keys[i].table);
	}
	free(columns->plain);
	free(columns->plain_data);
	free(columns->keys);
	memset(columns, 0, sizeof(*columns));
}
