/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COTENANT_OBJECT_H
#define COTENANT_OBJECT_H

struct bpf_object;

struct bpf_object *object_open(const char *path);
int object_choose(struct bpf_object *object, const char *program, int attach_type);
int object_set(struct bpf_object *object, const char *name, long long value);
int object_share(struct bpf_object *object, const char *map, int fd);
int object_resize(struct bpf_object *object, const char *map, unsigned int entries);
/* For kernels on which programs must not allocate: maps that are filled from the start. */
int object_preallocate(struct bpf_object *object);
const char *object_spoken(void);

#endif /* COTENANT_OBJECT_H */
