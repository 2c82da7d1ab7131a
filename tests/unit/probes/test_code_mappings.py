"""Processes that keep their mappings locked hold up nobody who asks about all."""

import errno
import threading
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pytest

from cotenant.probes import code_mappings as module
from cotenant.probes.code_mappings import CodeMappings, HeldUp
from cotenant.probes.inodes import Inode, mappings_of
from cotenant.schema.layouts import LOCKED as LOCKED_DTYPE
from cotenant.schema.layouts import MAPPING

CODE, LOCKED = 3, 5
FILE = Inode(1, 41, 0)
FD = 8
MEMORY = 1000  # Of process 1 it is 1001.


class Kernel:
    """Processes with one mapping each; some of them locked."""

    def __init__(self, *pids: int) -> None:
        self.pids = pids
        self.locked: dict[int, int] = {}
        self.free = threading.Event()
        self.one_by_one = True

    def iterate(self, program: int, _: int) -> Iterator[bytes]:
        assert program == CODE
        for pid in self.pids:
            yield self._told(pid)

    def run_iterator(self, program: int, pid: int = 0) -> bytes:
        if program == LOCKED:
            found = np.zeros(len(self.locked), LOCKED_DTYPE)
            found["pid"], found["owner"] = list(self.locked), list(self.locked.values())
            found["memory"] = found["pid"] + MEMORY
            return found.tobytes()
        if not self.one_by_one:
            raise OSError(errno.EINVAL, "no such option")
        return self._told(pid) if pid in self.pids else b""

    def _told(self, pid: int) -> bytes:
        if pid in self.locked:
            self.free.wait(60)
        found = np.zeros(1, MAPPING)
        found["pid"] = found["process"] = pid
        found["device"], found["inode"] = FILE.device, FILE.number
        return found.tobytes()


class Mapping:
    """Address spaces that have a file mapped, and those that a thread copies."""

    def __init__(self, mapped: set[int], copied: Collection[int] = ()) -> None:
        self.mapped = mapped
        self.copied = copied

    def of_file(self, fd: int, spaces: Collection[int]) -> set[int]:
        assert fd == FD
        return {space for space in spaces if space - MEMORY in self.mapped}

    def forking(self, spaces: Collection[int]) -> set[int]:
        return {space for space in spaces if space - MEMORY in self.copied}


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel(7, 11, 13)
    monkeypatch.setattr(module, "syscalls", made)
    monkeypatch.setattr(module, "_LOOK_S", 0.3)
    monkeypatch.setattr(module, "_LONG_S", 0.1)
    monkeypatch.setattr(module.os, "listdir", lambda _: ["7", "11", "self", "13", "17"])
    yield made
    made.free.set()


def pids(parts: Iterator[Any]) -> set[int]:
    return {pid for part in parts for pid in part["pid"].tolist()}


def test_all_that_let_themselves_be_asked_are_asked(kernel: Kernel) -> None:
    code = CodeMappings(CODE, LOCKED)
    silent: dict[int, int] = {}
    assert pids(code.everywhere(silent)) == {7, 11, 13}
    kernel.locked[11] = 99
    for _ in range(3):
        assert pids(code.everywhere(silent)) == {7, 13}
        assert silent == {11: MEMORY + 11}
    kernel.free.set()
    kernel.locked.clear()
    for thread in code._behind:
        thread.join(60)
    silent.clear()
    assert pids(code.everywhere(silent)) == {7, 11, 13}
    assert silent == {}


def test_who_asks_in_vain_again_and_again_leaves_a_bounded_number_behind(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    code = CodeMappings(CODE, LOCKED)
    kernel.locked[11] = 99
    kernel.one_by_one = False  # As before Linux 6.1.
    monkeypatch.setattr(code, "_locked_for", lambda _: {})
    for _ in range(23):
        with pytest.raises(HeldUp):
            list(code.everywhere())
    kernel.one_by_one = True
    for _ in range(23):
        with pytest.raises(HeldUp):
            list(code.everywhere())
    assert len(code._behind) == 8


def test_no_probe_is_placed_while_somebody_keeps_its_memory_locked(kernel: Kernel) -> None:
    code = CodeMappings(CODE, LOCKED)
    code.check_unlocked(FD)
    assert len(mappings_of(code, FILE, FD)) == 3
    kernel.locked[13] = 99
    with pytest.raises(HeldUp, match="process 13 keeps its memory locked: end that process"):
        code.check_unlocked(FD)
    with pytest.raises(HeldUp, match="process 13 keeps its memory locked: end that process"):
        mappings_of(code, FILE, FD)


def test_who_keeps_its_memory_locked_matters_for_the_files_that_it_maps(kernel: Kernel) -> None:
    mapping = Mapping({7, 11})
    code = CodeMappings(CODE, LOCKED, mapping)  # type: ignore[arg-type]
    kernel.locked[13] = 99
    code.check_unlocked(FD)
    assert set(mappings_of(code, FILE, FD)["pid"].tolist()) == {7, 11}
    kernel.locked[11] = 99
    with pytest.raises(HeldUp, match="process 11 keeps its memory locked: end that process"):
        code.check_unlocked(FD)
    with pytest.raises(HeldUp, match="process 11 keeps its memory locked: end that process"):
        mappings_of(code, FILE, FD)


def test_who_forks_while_its_memory_is_locked_matters_for_all_files(kernel: Kernel) -> None:
    code = CodeMappings(CODE, LOCKED, Mapping({7}, {13}))  # type: ignore[arg-type]
    code.check_unlocked(FD)
    kernel.locked[13] = 99
    with pytest.raises(HeldUp, match="process 13 keeps its memory locked: end that process"):
        code.check_unlocked(FD)
    assert set(mappings_of(code, FILE, FD)["pid"].tolist()) == {7, 11}


def test_memory_that_is_locked_by_one_after_the_other_is_in_use(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = CodeMappings(CODE, LOCKED)

    def sleep(_: float) -> None:
        kernel.locked[13] += 1

    monkeypatch.setattr(module.time, "sleep", sleep)
    kernel.locked[13] = 99
    code.check_unlocked(FD)


def test_who_stops_asking_leaves_nobody_behind(kernel: Kernel) -> None:
    code = CodeMappings(CODE, LOCKED)
    kernel.pids = tuple(range(1, 101))
    asked = code.everywhere()
    next(asked)
    asked.close()
    for thread in threading.enumerate():
        if thread.name == "mappings":
            thread.join(60)
            assert not thread.is_alive()
    assert code._behind == []


def test_an_error_of_the_kernel_is_the_askers(kernel: Kernel, monkeypatch: Any) -> None:
    def refuse(*_: object) -> Iterator[bytes]:
        raise PermissionError("no")

    monkeypatch.setattr(kernel, "iterate", refuse)
    with pytest.raises(PermissionError, match="no"):
        list(CodeMappings(CODE, LOCKED).everywhere())
