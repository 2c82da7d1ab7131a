// SPDX-License-Identifier: Apache-2.0
/*
 * Records into columns: each part of a record goes to the end of its column, and tuples of parts
 * that identify something (a tenant, a kernel of a process) are numbered, so that what costs time
 * is done once per distinct value and not once per event.
 */
#include <stdlib.h>
#include <string.h>

#include "drain.h"

#define ROOM_FIRST 4096
#define TABLE_FIRST 256

int buffer_add(struct buffer *buffer, const void *bytes, size_t count)
{
	if (buffer->used + count > buffer->room) {
		size_t room = buffer->room ? buffer->room * 2 : ROOM_FIRST;
		uint8_t *grown;

		while (room < buffer->used + count)
			room *= 2;
		grown = realloc(buffer->bytes, room);
		if (!grown)
			return -1;
		buffer->bytes = grown;
		buffer->room = room;
	}
	memcpy(buffer->bytes + buffer->used, bytes, count);
	buffer->used += count;
	return 0;
}

static uint64_t hash(const uint8_t *bytes, uint32_t width)
{
	uint64_t mixed = 0x9e3779b97f4a7c15ULL ^ width;
	uint64_t word;

	/* Keys are padded to whole words. */
	for (uint32_t i = 0; i < width; i += 8) {
		memcpy(&word, bytes + i, 8);
		mixed = (mixed ^ word) * 0xff51afd7ed558ccdULL;
		mixed ^= mixed >> 32;
	}
	return mixed;
}

static int table_grow(struct key *key)
{
	uint32_t size = key->table_size ? key->table_size * 2 : TABLE_FIRST;
	uint32_t *table = calloc(size, sizeof(*table));

	if (!table)
		return -1;
	for (uint32_t code = 0; code < key->count; code++) {
		uint64_t at = hash(key->values.bytes + (size_t)code * key->width, key->width);

		while (table[at & (size - 1)])
			at++;
		table[at & (size - 1)] = code + 1;
	}
	free(key->table);
	key->table = table;
	key->table_size = size;
	return 0;
}

static int key_add(struct key *key, const uint8_t *record)
{
	uint8_t value[KEY_BYTES_MAX] = {0};
	uint32_t filled = 0;
	uint64_t at;
	int32_t code;

	for (uint32_t i = 0; i < key->nparts; i++) {
		memcpy(value + filled, record + key->parts[i].offset, key->parts[i].width);
		filled += key->parts[i].width;
	}
	if (key->count * 2 >= key->table_size && table_grow(key))
		return -1;
	for (at = hash(value, key->width);; at++) {
		uint32_t found = key->table[at & (key->table_size - 1)];

		if (!found)
			break;
		code = found - 1;
		if (!memcmp(key->values.bytes + (size_t)code * key->width, value, key->width))
			return buffer_add(&key->codes, &code, sizeof(code));
	}
	code = key->count++;
	key->table[at & (key->table_size - 1)] = key->count;
	if (buffer_add(&key->values, value, key->width))
		return -1;
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
