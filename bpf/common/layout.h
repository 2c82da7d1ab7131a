/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Clang drops the BTF of types that no global mentions; these mention what user space reads, and
 * tools/gen_schema.py writes it to src/cotenant/schema/:
 *
 *   RECORDS(event)     a table, and how its rows lie in the ring
 *   VALUES(enum)       texts by number
 *   NUMBERS(enum)      each enumerator under its own name
 *   FLAGS(enum)        a Python IntFlag
 *   LAYOUT(struct)     a numpy type
 */
#ifndef COTENANT_LAYOUT_H
#define COTENANT_LAYOUT_H

#define RECORDS(event)                                                                             \
	const struct event *records_##event __attribute__((unused));                               \
	const enum event_kind *kind_of_##event __attribute__((unused))
#define VALUES(enumeration) const enum enumeration *values_##enumeration __attribute__((unused))
#define NUMBERS(enumeration) const enum enumeration *numbers_##enumeration __attribute__((unused))
#define FLAGS(enumeration) const enum enumeration *flags_##enumeration __attribute__((unused))
#define LAYOUT(name) const struct name *layout_##name __attribute__((unused))

#endif /* COTENANT_LAYOUT_H */
