"""What a process has changed of a file's code in its own memory."""

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cotenant.probes.attach import Placed
from cotenant.probes.changes import PATCH_BYTES, Code, TooMany
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import MAPPING

PAGE = mmap.PAGESIZE
STARTS = (64, 512, PAGE - 6, 2 * PAGE)  # The third reaches over a page's end.
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Mapped:
    """A file of three pages, mapped as code into this process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(range(256)) * (3 * PAGE // 256))
        self.fd = os.open(path, os.O_RDONLY)
        self.at = libc.mmap(None, 3 * PAGE, 5, mmap.MAP_PRIVATE, self.fd, 0)
        self.code = Code(self.fd, [Placed(FUNCTIONS[0], start, start, 1) for start in STARTS])

    def write(self, offset: int, text: bytes) -> None:
        assert libc.mprotect(self.at, 3 * PAGE, 7) == 0
        ctypes.memmove(self.at + offset, text, len(text))
        assert libc.mprotect(self.at, 3 * PAGE, 5) == 0

    def changed(self, seconds: float = 10, **about: int) -> frozenset[int]:
        mapping = np.zeros(1, MAPPING)
        named = {"pid": os.getpid(), "start": self.at, "end": self.at + 3 * PAGE, **about}
        for name, value in named.items():
            mapping[name] = value
        return self.code.changed(mapping, seconds)


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[Mapped]:
    found = Mapped(tmp_path / "code")
    yield found
    libc.munmap(ctypes.c_void_p(found.at), 3 * PAGE)
    os.close(found.fd)


def test_nothing_is_changed_by_running_or_reading_it(mapped: Mapped) -> None:
    assert mapped.changed() == frozenset()
    ctypes.string_at(mapped.at, 3 * PAGE)
    assert mapped.changed() == frozenset()


def test_a_page_that_was_written_to_with_the_same_bytes_is_not_changed(mapped: Mapped) -> None:
    mapped.write(STARTS[0], ctypes.string_at(mapped.at + STARTS[0], PATCH_BYTES))
    assert mapped.changed() == frozenset()


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("at", range(PATCH_BYTES))
def test_each_byte_of_a_patch_counts(mapped: Mapped, start: int, at: int) -> None:
    mapped.write(start + at, b"\xe9")
    assert mapped.changed() == {start}


def test_what_is_beyond_a_patch_does_not(mapped: Mapped) -> None:
    for start in STARTS:
        mapped.write(start - 1, b"\xe9")
        mapped.write(start + PATCH_BYTES, b"\xe9")
    assert mapped.changed() == frozenset()


def test_a_breakpoint_that_the_kernel_did_not_place_is_a_change(mapped: Mapped) -> None:
    mapped.write(STARTS[1], b"\xcc")
    assert mapped.changed() == {STARTS[1]}


def test_a_part_of_the_file_is_compared_where_it_is_mapped(mapped: Mapped) -> None:
    mapped.write(PAGE + 2, b"\xe9")
    assert mapped.changed(start=mapped.at + PAGE, offset=PAGE) == {STARTS[2]}
    assert mapped.changed(end=mapped.at + PAGE) == frozenset()


def test_a_process_that_is_gone_has_changed_nothing(mapped: Mapped) -> None:
    mapped.write(STARTS[0], b"\xe9")
    pid = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(pid, 0)
    assert mapped.changed(pid=pid) == frozenset()


def test_what_cannot_be_looked_at_in_time_is_not_said_to_be_unchanged(mapped: Mapped) -> None:
    with pytest.raises(TooMany, match="1 of 1 mappings not looked at"):
        mapped.changed(seconds=-1)


def test_one_process_with_many_mappings_does_not_use_up_the_time_for_all(
    mapped: Mapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = np.zeros(10_007, MAPPING)
    mappings["pid"] = 7  # In between are two others, with a mapping each.
    mappings["pid"][[0, 5003]] = 11, 5
    looked: list[int] = []
    monkeypatch.setattr(mapped.code, "_changed_in", lambda one: looked.append(one["pid"]) or set())
    assert mapped.code.changed(mappings, 60) == frozenset()
    assert sorted(looked) == [5, *[7] * 8, 11]


def test_a_mapping_that_reaches_far_beyond_the_file_costs_no_more(
    mapped: Mapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def pread(fd: int, count: int, offset: int) -> bytes:
        read.append(count)
        return real(fd, count, offset)

    real = os.pread
    monkeypatch.setattr("cotenant.probes.changes.os.pread", pread)
    mapped.write(STARTS[3], b"\xe9")
    assert mapped.changed(end=mapped.at + (4 << 30)) == {STARTS[3]}
    assert max(read) <= PAGE
