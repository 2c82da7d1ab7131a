"""ELF files of tenants: well-formed ones are read right, all others raise BadElf and no more."""

import os
import random
import struct
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.plan import plan
from cotenant.probes.sites import choose_site
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.compiler import compile_c

ROUNDS = 400


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small library of ours, as a compiler makes it."""
    from tests.kernel.compiler import build_library

    place = tmp_path_factory.mktemp("elf") / "libcuda.so.1"
    return build_library(place, ["cuLaunchKernel", "cuMemAlloc_v2", "cuInit"]).read_bytes()


def exercise(fd: int) -> None:
    """Everything that is ever asked of a file."""
    with suppress(BadElf):
        plan(fd, FUNCTIONS)
    with Elf(fd) as elf:
        elf.build_id()
        starts = elf.function_starts().tolist()
        elf.variables("8__handle")
        elf.first_address()
        elf.name_at(starts[0] if starts else 0)
        elf.address_of(4096)
        for extent in elf.extents(["cuLaunchKernel", "cuInit"]).values():
            choose_site(elf, extent, stepped=True)
            choose_site(elf, extent, stepped=True, beyond=13)


def test_what_a_file_does_not_define_is_the_name_of_no_address(tmp_path: Path) -> None:
    source = tmp_path / "uses.c"
    source.write_text('int puts(const char *); int here(void) { return puts(""); }')
    library = compile_c(tmp_path / "libuses.so", source, "-shared", "-fPIC")
    with library.open("rb") as file, Elf(file.fileno()) as elf:
        assert elf.name_at(0) is None
        (at,) = [start for start in elf.function_starts().tolist() if elf.name_at(start) == "here"]
    assert at


def test_the_first_page_is_where_it_is_though_a_tool_has_moved_others(good: bytes) -> None:
    moved = bytearray(good)
    table, count = struct.unpack_from("<Q", good, 32)[0], struct.unpack_from("<H", good, 56)[0]
    loads = [at for at in range(table, table + 56 * count, 56) if good[at] == 1]
    # As patchelf does in wheels: a part is loaded at an address below its place in the file.
    struct.pack_into("<Q", moved, loads[-1] + 8, 1 << 30)
    with opened(bytes(moved)) as fd, Elf(fd) as elf:
        assert elf.first_address() == 0


def test_a_good_file_is_planned(good: bytes) -> None:
    with opened(good) as fd:
        found = plan(fd, FUNCTIONS)
    assert found is not None
    symbols = {placed.function.symbol for placed in found.placed}
    assert symbols == {"cuLaunchKernel", "cuMemAlloc_v2", "cuInit"}
    assert found.refused == {}


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"#!/bin/sh\n" * 20, bytes(4096)])
def test_what_is_no_elf_file_is_no_library(data: bytes) -> None:
    with opened(data) as fd:
        assert plan(fd, FUNCTIONS) is None
        with pytest.raises(BadElf):
            Elf(fd)


def test_a_file_cut_short_while_it_is_read_raises(good: bytes) -> None:
    with opened(good) as fd:
        elf = Elf(fd)
        os.ftruncate(fd, 100)
        with pytest.raises(BadElf):
            elf.find(["cuLaunchKernel"])


def test_mutated_files_raise_nothing_but_bad_elf(good: bytes) -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        data = bytearray(good)
        for _ in range(chance.choice((1, 2, 8, 64))):
            place = chance.choice((chance.randrange(64), chance.randrange(len(data))))
            data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        if chance.random() < 0.3:
            data = data[: chance.randrange(len(data))]
        with opened(bytes(data)) as fd:
            try:
                exercise(fd)
            except BadElf:
                continue


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2048))
def test_any_bytes_after_a_header_raise_nothing_but_bad_elf(tail: bytes) -> None:
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + tail
    with opened(head) as fd:
        try:
            exercise(fd)
        except BadElf:
            return


def test_a_table_that_claims_gigabytes_is_refused(good: bytes, tmp_path: Path) -> None:
    place = tmp_path / "sparse"
    place.write_bytes(good)
    os.truncate(place, 1 << 40)
    with place.open("rb") as file:
        exercise(file.fileno())


def with_unwinding(good: bytes, address: int, starts: list[int]) -> bytes:
    """The library with a table of unwinding at this address, relative to which its starts are."""
    pairs = b"".join(struct.pack("<ii", start, 0) for start in starts)
    table = b"\x01\x1b\x03\x3b" + struct.pack("<iI", 0, len(starts)) + pairs
    data = bytearray(good + table)
    (first,) = struct.unpack_from("<Q", good, 32)
    (count,) = struct.unpack_from("<H", good, 56)
    places = [first + 56 * at for at in range(count)]
    place = next(at for at in places if struct.unpack_from("<I", good, at)[0] != 1)
    struct.pack_into("<IIQQQQ", data, place, 0x6474E550, 4, len(good), address, address, len(table))
    return bytes(data)


@pytest.mark.parametrize("address", [0x5000, 2**63 - 1, 2**63, 2**64 - 7])
def test_a_table_of_unwinding_may_lie_at_any_address(good: bytes, address: int) -> None:
    with opened(with_unwinding(good, address, [])) as fd, Elf(fd) as elf:
        by_symbol = set(elf.function_starts().tolist())
    with opened(with_unwinding(good, address, [-0x11, 0x101])) as fd, Elf(fd) as elf:
        found = set(elf.function_starts().tolist())
    assert found - by_symbol == {(address - 0x11) % 2**64, (address + 0x101) % 2**64}


def with_strings(good: bytes, strings: bytes, sections: int = 1) -> bytes:
    """The library with these strings behind its exports, and with so many tables of them."""
    (start,) = struct.unpack_from("<Q", good, 40)
    (count,) = struct.unpack_from("<H", good, 60)
    table = bytearray(good[start : start + 64 * count])
    kinds = [struct.unpack_from("<I", table, 64 * at + 4)[0] for at in range(count)]
    exports = table[64 * kinds.index(11) :][:64]
    (link,) = struct.unpack_from("<I", exports, 40)
    struct.pack_into("<QQ", table, 64 * link + 24, len(good), len(strings))
    data = bytearray(good + strings)
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<H", data, 60, count + sections - 1)
    return bytes(data + table + exports * (sections - 1))


def test_a_name_that_is_repeated_a_million_times_costs_no_memory(good: bytes) -> None:
    strings = b"\0" + b"cuLaunchKernel\0" * 1_000_003
    with opened(with_strings(good, strings)) as fd, Elf(fd) as elf:
        tracemalloc.start()
        try:
            elf.find(["cuLaunchKernel"])
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 3 * len(strings)


def test_each_table_is_read_once_however_many_sections_point_at_it(
    good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    strings = b"\0" + b"nothing\0" * 101
    read = []
    with opened(with_strings(good, strings, sections=3001)) as fd, Elf(fd) as elf:
        bytes_at = elf.bytes_at
        monkeypatch.setattr(
            elf, "bytes_at", lambda at, size: (read.append((at, size)), bytes_at(at, size))[1]
        )
        assert elf.exports(["cuLaunchKernel_nowhere"]) is False
        assert elf.find(["cuLaunchKernel_nowhere"]) == {}
    assert read.count((len(good), len(strings))) == 2


def test_a_table_of_strings_beyond_all_measure_is_left_out(good: bytes, tmp_path: Path) -> None:
    place = tmp_path / "sparse"
    data = bytearray(with_strings(good, b"\0"))
    (start,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    for at in range(count):
        kind, size = struct.unpack_from("<I", data, start + 64 * at + 4)[0], 100 << 20
        if kind == 3:
            struct.pack_into("<Q", data, start + 64 * at + 32, size)
    place.write_bytes(data)
    os.truncate(place, 1 << 30)
    with place.open("rb") as file, Elf(file.fileno()) as elf:
        assert elf.find(["cuLaunchKernel"]) == {}
        assert elf.exports(["cuLaunchKernel"]) is False
        # What is in it nobody knows.
        with pytest.raises(BadElf, match="has too many names of symbols"):
            plan(file.fileno(), FUNCTIONS)


def with_relocations(count: int, segments: int) -> bytes:
    """A file whose executable segments all lie at one place, with relocations there."""
    headers_at, section_at = 64, 64 + 56 * segments
    table_at = section_at + 64
    size = table_at + 24 * count
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, headers_at, section_at, 0, 64, 56, segments, 64, 1, 0,
    )  # fmt: skip
    loads = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096) * segments
    section = struct.pack("<IIQQQQIIQQ", 0, 4, 2, 0, table_at, 24 * count, 0, 0, 8, 24)
    return head + loads + section + b"".join(struct.pack("<QQQ", n, 8, 0) for n in range(count))


def test_code_that_is_loaded_many_times_over_costs_no_more_memory() -> None:
    count = 50_021
    with opened(with_relocations(count, 64)) as fd, Elf(fd) as elf:
        tracemalloc.start()
        try:
            written = elf.written_code()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert written.tolist() == list(range(count))
    assert peak < count * 24 * 8


def test_notes_without_end_are_read_as_far_as_linkers_make_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytearray(with_relocations(1, 1) + bytes(1 << 16))
    note = struct.pack("<IIQQQQIIQQ", 0, 7, 2, 0, 0, 1 << 16, 0, 0, 4, 0)
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<H", data, 60, 4001)
    read: list[int] = []
    with opened(bytes(data) + note * 4001) as fd, Elf(fd) as elf:
        bytes_at = elf.bytes_at
        monkeypatch.setattr(
            elf, "bytes_at", lambda at, size: (read.append(size), bytes_at(at, size))[1]
        )
        assert elf.build_id() is None
    assert read == [1 << 16] * 16
