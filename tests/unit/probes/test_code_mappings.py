"""A process that keeps its mappings locked holds up no other that is asked about."""

import errno
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cotenant.probes import code_mappings as module
from cotenant.probes import memory_locks
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode, mappings_of
from cotenant.probes.memory_locks import HeldUp, MemoryLock
from cotenant.schema.layouts import MAPPING
from tests.unit.probes.memory import FD, MEMORY, READ, Looks, locks_of

CODE = 3
FILE = Inode(1, 41, 0)
HELD = (READ, 99)


class Kernel(Looks):
    """Processes with one mapping each; some of them locked."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()
        self.one_by_one = True
        self.asked: list[int] = []

    def iterate(self, program: int, _: int) -> Iterator[bytes]:
        assert program == CODE
        for pid in self.pids:
            yield self._mappings(pid)

    def run_iterator(self, program: int, pid: int = 0) -> bytes:
        if program != CODE:
            return super().run_iterator(program)
        if not self.one_by_one:
            raise OSError(errno.EINVAL, "no such option")
        return self._mappings(pid) if pid in self.pids else b""

    def _mappings(self, pid: int) -> bytes:
        self.asked.append(pid)
        if pid in self.locked:
            self.free.wait(60)
        found = np.zeros(1, MAPPING)
        found["pid"] = found["process"] = pid
        found["device"], found["inode"] = FILE.device, FILE.number
        return found.tobytes()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel()
    monkeypatch.setattr(module, "syscalls", made)
    monkeypatch.setattr(memory_locks, "syscalls", made)
    monkeypatch.setattr(module, "_LOOK_S", 0.3)
    monkeypatch.setattr(module, "_WAIT_S", 0.1)
    yield made
    made.free.set()


def pids(parts: Iterator[Any]) -> set[int]:
    return {pid for part in parts for pid in part["pid"].tolist()}


def test_all_processes_are_asked_but_those_that_are_locked(kernel: Kernel) -> None:
    code = CodeMappings(CODE, locks_of())
    silent: dict[int, MemoryLock] = {}
    assert pids(code.everywhere(silent)) == {7, 11, 13}
    kernel.locked[11] = HELD
    for _ in range(3):
        assert pids(code.everywhere(silent)) == {7, 13}
        assert silent.keys() == {MEMORY + 11}
    kernel.locked.clear()
    silent.clear()
    assert pids(code.everywhere(silent)) == {7, 11, 13}
    assert silent == {}


def test_a_bounded_number_of_threads_waits_for_locks(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    locks = locks_of()
    code = CodeMappings(CODE, locks)
    kernel.locked[11] = HELD
    kernel.one_by_one = False  # As before Linux 6.1.
    monkeypatch.setattr(locks, "kept", dict)
    for _ in range(23):
        with pytest.raises(HeldUp):
            list(code.everywhere())
    kernel.one_by_one = True
    for _ in range(23):
        with pytest.raises(HeldUp):
            list(code.everywhere())
    assert len(code._behind) == 8


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_file_is_asked_about_where_it_is_mapped(kernel: Kernel, one_by_one: bool) -> None:
    kernel.one_by_one = one_by_one
    code = CodeMappings(CODE, locks_of(7, 11))
    assert {7, 11} <= set(mappings_of(code, FILE, FD)["pid"].tolist())
    assert set(kernel.asked) >= {7, 11}


def test_a_lock_matters_for_the_files_that_its_process_maps(kernel: Kernel) -> None:
    code = CodeMappings(CODE, locks_of(7, 11))
    kernel.locked[13] = HELD
    assert set(mappings_of(code, FILE, FD)["pid"].tolist()) == {7, 11}
    kernel.locked[11] = HELD
    with pytest.raises(HeldUp, match="process 11 keeps its memory locked: end that process"):
        mappings_of(code, FILE, FD)


def test_a_question_that_is_given_up_leaves_no_thread(kernel: Kernel) -> None:
    code = CodeMappings(CODE, locks_of())
    kernel.pids = set(range(1, 101))
    asked = code.everywhere()
    next(asked)
    asked.close()
    for thread in threading.enumerate():
        if thread.name == "mappings":
            thread.join(60)
            assert not thread.is_alive()
    assert code._behind == []


def test_an_error_of_the_kernel_reaches_the_caller(kernel: Kernel, monkeypatch: Any) -> None:
    def refuse(*_: object) -> Iterator[bytes]:
        raise PermissionError("no")

    monkeypatch.setattr(kernel, "iterate", refuse)
    with pytest.raises(PermissionError, match="no"):
        list(CodeMappings(CODE, locks_of()).everywhere())
