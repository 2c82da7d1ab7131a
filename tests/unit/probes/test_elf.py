"""ELF files of tenants: well-formed ones are read right, all others raise BadElf and no more."""

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.library import plan
from cotenant.probes.sites import choose_site
from cotenant.probes.tables import FUNCTIONS

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
    from tests.kernel.every import build_library

    place = tmp_path_factory.mktemp("elf") / "libcuda.so.1"
    return build_library(place, ["cuLaunchKernel", "cuMemAlloc_v2", "cuInit"]).read_bytes()


def exercise(fd: int) -> None:
    """Everything that is ever asked of a file."""
    plan(fd, FUNCTIONS)
    with Elf(fd) as elf:
        elf.build_id()
        starts = elf.function_starts().tolist()
        elf.variables("8__handle")
        elf.first_address()
        elf.name_at(starts[0] if starts else 0)
        elf.address_of(4096)
        for offset in elf.find(["cuLaunchKernel", "cuInit"]).values():
            choose_site(elf, offset)


def test_a_good_file_is_planned(good: bytes) -> None:
    with opened(good) as fd:
        found = plan(fd, FUNCTIONS)
    assert found is not None
    symbols = {placed.function.symbol for placed in found.placed}
    assert symbols == {"cuLaunchKernel", "cuMemAlloc_v2", "cuInit"}
    assert found.refused == {}


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, bytes(4096)])
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
