// SPDX-License-Identifier: Apache-2.0
/*
 * A BPF object file into the kernel: choose its programs, set its constants, share its maps.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"

/*
 * libbpf speaks through one function; what it says last is the reason of a failure, so the end is
 * kept. Each thread hears what it loads itself.
 */
#define SPOKEN_MAX (256 << 10)
static _Thread_local char spoken[SPOKEN_MAX];
static _Thread_local size_t spoken_used;

static void keep(const char *text, size_t size)
{
	size_t over;

	if (size >= SPOKEN_MAX) {
		text += size - (SPOKEN_MAX - 1);
		size = SPOKEN_MAX - 1;
	}
	over = spoken_used + size >= SPOKEN_MAX ? spoken_used + size - (SPOKEN_MAX - 1) : 0;
	memmove(spoken, spoken + over, spoken_used - over);
	spoken_used -= over;
	memcpy(spoken + spoken_used, text, size);
	spoken_used += size;
	spoken[spoken_used] = 0;
}

static int listen(enum libbpf_print_level level, const char *format, va_list args)
{
	char *text;
	int size;

	if (level == LIBBPF_DEBUG)
		return 0;
	size = vasprintf(&text, format, args);
	if (size < 0)
		return 0;
	keep(text, size);
	free(text);
	return size;
}

const char *object_spoken(void)
{
	return spoken;
}

struct bpf_object *object_open(const char *path)
{
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	libbpf_set_print(listen);
	spoken_used = 0;
	spoken[0] = 0;
	return bpf_object__open_file(path, NULL);
}

int object_choose(struct bpf_object *object, const char *program, int attach_type)
{
	struct bpf_program *found = bpf_object__find_program_by_name(object, program);

	if (!found)
		return -ENOENT;
	bpf_program__set_autoload(found, true);
	if (attach_type >= 0)
		bpf_program__set_expected_attach_type(found, attach_type);
	return 0;
}

/* A constant of the object, if it has one of this name in the BTF of its read-only data. */
int object_set(struct bpf_object *object, const char *name, long long value)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".rodata");
	const struct btf *btf = bpf_object__btf(object);
	int section = btf ? btf__find_by_name_kind(btf, ".rodata", BTF_KIND_DATASEC) : -ENOENT;
	const struct btf_var_secinfo *info;
	const struct btf_type *type;
	size_t size = 0;
	char *data;

	data = map ? (char *)bpf_map__initial_value(map, &size) : NULL;
	if (!data || section < 0)
		return 0;
	type = btf__type_by_id(btf, section);
	info = btf_var_secinfos(type);
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_type *var = btf__type_by_id(btf, info[i].type);

		if (strcmp(btf__name_by_offset(btf, var->name_off), name))
			continue;
		if (info[i].size > sizeof(value) || info[i].offset + info[i].size > size)
			return -EINVAL;
		memcpy(data + info[i].offset, &value, info[i].size);
		return 0;
	}
	return 0;
}

int object_share(struct bpf_object *object, const char *map, int fd)
{
	struct bpf_map *found = bpf_object__find_map_by_name(object, map);

	return found ? bpf_map__reuse_fd(found, fd) : 0;
}

int object_resize(struct bpf_object *object, const char *map, unsigned int entries)
{
	struct bpf_map *found = bpf_object__find_map_by_name(object, map);

	return found ? bpf_map__set_max_entries(found, entries) : 0;
}

/* Per CPU, and in all: a full map costs its memory from the start. */
#define PREALLOCATED_EACH 4096
#define PREALLOCATED_ALL 65536

int object_preallocate(struct bpf_object *object)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, object) {
		enum bpf_map_type type = bpf_map__type(map);
		unsigned int most = type == BPF_MAP_TYPE_PERCPU_HASH ? PREALLOCATED_EACH
								      : PREALLOCATED_ALL;
		int error;

		if (type != BPF_MAP_TYPE_HASH && type != BPF_MAP_TYPE_PERCPU_HASH)
			continue;
		error = bpf_map__set_map_flags(map, bpf_map__map_flags(map) & ~BPF_F_NO_PREALLOC);
		if (!error && bpf_map__max_entries(map) > most)
			error = bpf_map__set_max_entries(map, most);
		if (error)
			return error;
	}
	return 0;
}
