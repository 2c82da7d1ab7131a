"""Numbers and layouts that bpf(2) and perf_event_open(2) are called with, against the C headers."""

import errno
from pathlib import Path

import pytest

from cotenant.probes import perf, syscalls
from cotenant.schema.constants import MAPS
from tests.unit.probes.c_values import evaluate

HEADERS = """
#include <sys/syscall.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
"""
CLOSED = 1 << 20  # No descriptor of ours has such a number.
NUMBERS = {
    "SYS_bpf": syscalls._SYS_BPF,
    "SYS_perf_event_open": syscalls._SYS_PERF_EVENT_OPEN,
    "BPF_MAP_LOOKUP_ELEM": syscalls._MAP_LOOKUP,
    "BPF_MAP_UPDATE_ELEM": syscalls._MAP_UPDATE,
    "BPF_MAP_DELETE_ELEM": syscalls._MAP_DELETE,
    "BPF_MAP_LOOKUP_BATCH": syscalls._MAP_LOOKUP_BATCH,
    "BPF_OBJ_GET_INFO_BY_FD": syscalls._OBJ_GET_INFO_BY_FD,
    "BPF_RAW_TRACEPOINT_OPEN": syscalls._RAW_TRACEPOINT_OPEN,
    "BPF_LINK_CREATE": syscalls._LINK_CREATE,
    "BPF_ITER_CREATE": syscalls._ITER_CREATE,
    "BPF_TRACE_ITER": syscalls.ATTACH_TRACE_ITER,
    "BPF_PERF_EVENT": syscalls.ATTACH_PERF_EVENT,
    "offsetof(struct bpf_prog_info, recursion_misses)": syscalls._RECURSION_MISSES_AT,
    "PERF_TYPE_SOFTWARE": perf._TYPE_SOFTWARE,
    "PERF_COUNT_SW_CPU_CLOCK": perf._CPU_CLOCK,
    # Where the layouts that are packed by hand have these fields.
    "offsetof(union bpf_attr, map_fd)": 0,
    "offsetof(union bpf_attr, key)": 8,
    "offsetof(union bpf_attr, value)": 16,
    "offsetof(union bpf_attr, flags)": 24,
    "offsetof(union bpf_attr, batch.in_batch)": 0,
    "offsetof(union bpf_attr, batch.out_batch)": 8,
    "offsetof(union bpf_attr, batch.keys)": 16,
    "offsetof(union bpf_attr, batch.values)": 24,
    "offsetof(union bpf_attr, batch.count)": 32,
    "offsetof(union bpf_attr, batch.map_fd)": 36,
    "offsetof(union bpf_attr, link_create.prog_fd)": 0,
    "offsetof(union bpf_attr, link_create.attach_type)": 8,
    "offsetof(union bpf_attr, link_create.iter_info)": 16,
    "offsetof(union bpf_attr, link_create.iter_info_len)": 24,
    "offsetof(union bpf_attr, link_create.perf_event.bpf_cookie)": 16,
    "offsetof(union bpf_attr, raw_tracepoint.prog_fd)": 8,
    "offsetof(union bpf_attr, info.info)": 8,
    "offsetof(struct perf_event_attr, config)": 8,
    "offsetof(struct perf_event_attr, sample_freq)": 16,
    "offsetof(struct perf_event_attr, config1)": 56,
    "offsetof(struct perf_event_attr, config2)": 64,
    "PERF_ATTR_SIZE_VER5": 112,
}


def test_numbers_are_those_of_the_headers(tmp_path: Path) -> None:
    assert evaluate(tmp_path, HEADERS, NUMBERS) == NUMBERS


def test_a_period_that_is_a_frequency_is_asked_for_by_its_bit(tmp_path: Path) -> None:
    preamble = HEADERS + (
        "static const struct perf_event_attr asked = { .freq = 1 };\n"
        "#define FLAGS (*(const __u64 *)((const char *)&asked + 40))\n"
    )
    found = evaluate(tmp_path, preamble, ["FLAGS", "offsetof(struct perf_event_attr, read_format)"])
    assert found == {"FLAGS": perf._FREQUENCY, "offsetof(struct perf_event_attr, read_format)": 32}


def test_a_call_that_fails_says_what_it_was_for() -> None:
    with pytest.raises(OSError, match="update a map: ") as caught:
        syscalls.map_update(CLOSED, bytes(4), bytes(4))
    assert caught.value.errno in (errno.EBADF, errno.EPERM)
    with pytest.raises(OSError, match="attach 2 probes to /lib: "):
        syscalls.attach_uprobes(
            CLOSED, "/lib", [(0, 1), (16, 2)], attach_type=syscalls.ATTACH_UPROBE_MULTI
        )


def test_an_entry_is_looked_up_by_the_sizes_that_its_map_declares():
    assert MAPS["counters"][0] == 4
    with pytest.raises(ValueError, match="a key of counters has 4 bytes, not 8"):
        syscalls.map_lookup(CLOSED, "counters", bytes(8))
    with pytest.raises(OSError, match="look up a map"):
        syscalls.map_lookup(CLOSED, "counters", bytes(4))
