"""Which address spaces have a file mapped: those that do, or that it cannot be told."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.probes import mappers as module
from cotenant.probes.mappers import Mappers

FILE, FUSE, ANSWERS = 3, 5, 6
ASKED = bytes(8)


class Kernel:
    """A map, and programs that answer in it."""

    def __init__(self) -> None:
        self.answers: dict[bytes, bytes] = {}
        self.mapped: set[int] = set()
        self.devices: dict[int, set[int]] = {}
        self.missed: Iterator[set[int] | None] = iter(())  # By each walk; None if it is cut off.
        self.fails = 0

    def map_update(self, fd: int, key: bytes, value: bytes) -> None:
        assert fd == ANSWERS
        self.answers[key] = value

    def map_items(self, fd: int, _: int, __: int, *, take: bool) -> tuple[bytes, bytes]:
        assert (fd, take) == (ANSWERS, True)
        taken, self.answers = self.answers, {}
        return b"".join(taken), b"".join(taken.values())

    def run_iterator(self, program: int, pid: int = 0) -> bytes:
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))
        asked = self.answers[ASKED]
        if program == FUSE:
            self._answer(self.devices.get(int.from_bytes(asked, "little"), set()))
            return b""
        assert (program, pid) == (FILE, os.getpid())
        missed = next(self.missed, set())
        self._answer(self.mapped - (missed or set()))
        return b"" if missed is None else asked

    def _answer(self, numbers: set[int]) -> None:
        self.answers |= {number.to_bytes(8, "little"): bytes(8) for number in numbers}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(module, "syscalls", made)
    return made


@pytest.fixture
def mappers(kernel: Kernel) -> Mappers:
    return Mappers(FILE, FUSE, ANSWERS)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def test_those_that_have_it_mapped(kernel: Kernel, mappers: Mappers, fd: int) -> None:
    kernel.mapped = {7, 11, 17}
    assert mappers.of_file(fd) == {7, 11, 17}
    kernel.mapped = set()
    assert mappers.of_file(fd) == set()
    assert kernel.answers == {}


def test_what_one_walk_misses_another_finds(kernel: Kernel, mappers: Mappers, fd: int) -> None:
    kernel.mapped = {7, 11}
    kernel.missed = iter([{7}, {11}])
    assert mappers.of_file(fd) == {7, 11}


def test_a_walk_that_is_cut_off_is_made_again(kernel: Kernel, mappers: Mappers, fd: int) -> None:
    kernel.mapped = {7}
    kernel.missed = iter([None, set(), None])
    assert mappers.of_file(fd) == {7}


def test_walks_that_are_always_cut_off_tell_nothing(
    kernel: Kernel, mappers: Mappers, fd: int
) -> None:
    kernel.missed = iter([None] * 100)
    assert mappers.of_file(fd) is None
    assert kernel.answers == {}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.E2BIG])
def test_a_kernel_that_refuses_tells_nothing(
    kernel: Kernel, mappers: Mappers, fd: int, number: int
) -> None:
    kernel.fails = number
    assert mappers.of_file(fd) is None
    assert mappers.fuse_devices(7) == set()


def test_a_file_that_cannot_be_mapped_tells_nothing(
    kernel: Kernel, mappers: Mappers, tmp_path: Path
) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    assert mappers.of_file(directory) is None
    os.close(directory)


def test_fuse_devices_go_by_their_minor_number(kernel: Kernel, mappers: Mappers) -> None:
    kernel.devices = {7: {39, 5 << 20 | 41}, 11: {3}}
    assert mappers.fuse_devices(7) == {39, 41}
    assert mappers.fuse_devices(13) == set()


def test_without_its_programs_there_is_none() -> None:
    programs = {"file_mappers": FILE, "fuse_mapped": FUSE}
    assert Mappers.loaded(programs, {"answers": ANSWERS}) is not None
    assert Mappers.loaded({"file_mappers": FILE}, {"answers": ANSWERS}) is None
    assert Mappers.loaded({}, {"answers": ANSWERS}) is None
