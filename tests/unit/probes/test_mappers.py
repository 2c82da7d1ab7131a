"""Which address spaces have a file mapped: yes, no, or all of them if nobody can tell."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotenant.probes import mappers as module
from cotenant.probes.mappers import Mappers

FILE, FORK, ASKED = 3, 5, 6
ADDRESS = bytes(8)


class Kernel:
    """A map, and programs that answer in it."""

    def __init__(self) -> None:
        self.asked: dict[bytes, bytes] = {}
        self.most = 0
        self.mapped: set[int] = set()
        self.copied: set[int] = set()
        self.missed: Iterator[set[int] | None] = iter(())  # By each walk; None if it is cut off.
        self.fails = 0

    def map_update(self, fd: int, key: bytes, value: bytes) -> None:
        assert fd == ASKED
        self.asked[key] = value
        self.most = max(self.most, len(self.asked))

    def map_lookup(self, fd: int, name: str, key: bytes) -> bytes | None:
        assert (fd, name) == (ASKED, "asked_memory")
        return self.asked.get(key)

    def map_delete(self, fd: int, key: bytes) -> None:
        assert fd == ASKED
        self.asked.pop(key, None)

    def run_iterator(self, program: int, pid: int = 0) -> bytes:
        if self.fails:
            raise OSError(self.fails, os.strerror(self.fails))
        if program == FORK:
            self._answer(self.copied)
            return b""
        assert (program, pid) == (FILE, os.getpid())
        missed = next(self.missed, set())
        self._answer(self.mapped - (missed or set()))
        return b"" if missed is None else self.asked[ADDRESS]

    def _answer(self, spaces: set[int]) -> None:
        for space in spaces:
            key = space.to_bytes(8, "little")
            if key in self.asked:
                self.asked[key] = (1).to_bytes(8, "little")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(module, "syscalls", made)
    return made


@pytest.fixture
def of_file(tmp_path: Path) -> Iterator[Callable[[set[int]], set[int]]]:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    fd = os.open(path, os.O_RDONLY)
    yield lambda spaces: Mappers(FILE, FORK, ASKED).of_file(fd, spaces)
    os.close(fd)


OfFile = Callable[[set[int]], set[int]]


def test_those_that_have_it_mapped_and_no_others(kernel: Kernel, of_file: OfFile) -> None:
    kernel.mapped = {7, 11, 17}
    assert of_file({7, 11, 13}) == {7, 11}
    assert of_file({13}) == set()
    assert of_file(set()) == set()
    assert kernel.asked == {}


def test_what_one_walk_misses_another_finds(kernel: Kernel, of_file: OfFile) -> None:
    kernel.mapped = {7, 11}
    kernel.missed = iter([{7}, {11}])
    assert of_file({7, 11, 13}) == {7, 11}


def test_a_walk_that_is_cut_off_is_made_again(kernel: Kernel, of_file: OfFile) -> None:
    kernel.mapped = {7}
    kernel.missed = iter([None, set(), None])
    assert of_file({7, 13}) == {7}


def test_if_walks_are_cut_off_again_and_again_all_count(kernel: Kernel, of_file: OfFile) -> None:
    kernel.missed = iter([None] * 100)
    assert of_file({7, 13}) == {7, 13}
    assert kernel.asked == {}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.E2BIG])
def test_if_one_process_cannot_be_asked_about_all_count(
    kernel: Kernel, of_file: OfFile, number: int
) -> None:
    kernel.fails = number
    assert of_file({7, 13}) == {7, 13}
    assert Mappers(FILE, FORK, ASKED).forking({7, 13}) == {7, 13}
    assert kernel.asked == {}


def test_if_the_file_cannot_be_mapped_all_count(kernel: Kernel, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    assert Mappers(FILE, FORK, ASKED).of_file(fd, {7, 13}) == {7, 13}
    os.close(fd)


def test_however_many_they_are(kernel: Kernel, of_file: OfFile) -> None:
    kernel.mapped = {7, 5000}
    assert of_file(set(range(1, 5001))) == {7, 5000}
    assert kernel.most <= 1024


def test_those_that_a_thread_copies(kernel: Kernel) -> None:
    kernel.copied = {11, 17}
    assert Mappers(FILE, FORK, ASKED).forking({7, 11}) == {11}


def test_without_its_programs_there_is_none() -> None:
    programs = {"file_mappers": FILE, "forking_memory": FORK}
    assert Mappers.loaded(programs, {"asked_memory": ASKED}) is not None
    assert Mappers.loaded({"file_mappers": FILE}, {"asked_memory": ASKED}) is None
    assert Mappers.loaded({}, {"asked_memory": ASKED}) is None
