/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Clang drops the BTF of types that no global mentions; these mention what user space reads. */
#ifndef COTENANT_LAYOUT_H
#define COTENANT_LAYOUT_H

#define RECORDS(event)                                                                             \
	const struct event *records_##event __attribute__((unused));                               \
	const enum event_kind *kind_of_##event __attribute__((unused))
#define VALUES(enumeration) const enum enumeration *values_##enumeration __attribute__((unused))
#define LAYOUT(name) const struct name *layout_##name __attribute__((unused))

#endif /* COTENANT_LAYOUT_H */
