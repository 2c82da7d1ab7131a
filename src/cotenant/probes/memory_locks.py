"""Locks of processes' mappings: whoever places or removes a probe waits for them in the kernel.

A probe in a file waits for each process that has the file mapped, as code or not, and for all that
copy their memory to fork. While it waits, no process on the host can fork.
"""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from cotenant.errors import ProbeError
from cotenant.probes import syscalls
from cotenant.probes.mappers import ANSWERS, PROGRAMS, Mappers
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import MEMORY_LOCK

OBJECT: Final = "memory_locks"
PROGRAM: Final = "memory_locks"
_FREE, _READ, _WRITE = (
    next(number for number, text in ENUMS["lock_state"].items() if text == name)
    for name in ("free", "read", "write")
)
_PAUSE_S: Final = 0.001
# Busy processes take their locks all the time, for microseconds. A moment at which none is held is
# best; where none comes, those count as brief that were free a moment ago.
_PREFER_FREE_S: Final = 0.05
_BRIEF_S: Final = 0.004
_BRIEFLY_S: Final = 0.02


class HeldUp(ProbeError):
    """A process keeps its mappings locked: they cannot be read, and a probe would wait for it."""

    def __init__(self, pids: Collection[int]) -> None:
        who = f"process {min(pids)} keeps" if pids else "a process kept"
        super().__init__(f"{who} its memory locked: end that process")


@dataclass(frozen=True, slots=True)
class MemoryLock:
    """A lock that is held."""

    pid: int  # Of the process whose mappings are locked.
    owner: int  # Who took it last; 0 if that is not known.
    holder: int  # The same as a pid.
    writing: bool
    forking: bool  # A thread of the process may be about to copy its memory.

    def is_same(self, other: "MemoryLock") -> bool:
        """Whether it may have been held from one look to the other.

        A lock of readers has the last of them as its owner; others may have it still.
        """
        if not (self.writing and other.writing):
            return self.writing == other.writing
        return self.owner == other.owner


Held = Mapping[int, MemoryLock]  # By address space.


class MemoryLocks:
    """Looks at all locks at once, without waiting for any."""

    def __init__(self, program: int, mappers: Mappers | None) -> None:
        self.program = program
        self.mappers = mappers

    @classmethod
    def loaded(cls, programs: Mapping[str, int], maps: Mapping[str, int]) -> Self:
        """With what is loaded."""
        return cls(programs[PROGRAM], Mappers.loaded(programs, maps))

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors for another process that looks, as ``received`` takes them."""
        return (self.program, *(self.mappers.fds if self.mappers else ()))

    @classmethod
    def received(cls, fds: Collection[int]) -> Self:
        """From what another process sent."""
        program, *mappers = fds
        names = dict(zip((*PROGRAMS, ANSWERS), mappers, strict=False))
        answers = {ANSWERS: names.pop(ANSWERS)} if mappers else {}
        return cls(program, Mappers.loaded(names, answers))

    def held(self) -> dict[int, MemoryLock]:
        """Every lock that is held now, but our own."""
        found = self._read()
        held: dict[int, MemoryLock] = {}
        ours = set(found["memory"][found["pid"] == os.getpid()].tolist())
        for memory, owner, pid, holder, state, forking in found[found["state"] != _FREE].tolist():
            before = held.get(memory)
            held[memory] = MemoryLock(
                min(pid, before.pid) if before else pid,
                owner,
                holder,
                state == _WRITE,
                bool(forking) or bool(before and before.forking),
            )
        return {space: lock for space, lock in held.items() if space not in ours}

    def pids(self, spaces: Collection[int]) -> list[int]:
        """A thread of each process that has one of these address spaces."""
        found = self._read()
        wanted = np.isin(found["memory"], np.fromiter(spaces, np.uint64, len(spaces)))
        _, first = np.unique(found["memory"][wanted], return_index=True)
        return [int(pid) for pid in found["pid"][wanted][first]]

    def kept(self, seconds: float = _BRIEFLY_S) -> dict[int, MemoryLock]:
        """Locks that one and the same process may have held all the while."""
        until = time.monotonic() + seconds
        held = self.held()
        while held and time.monotonic() < until:
            time.sleep(_PAUSE_S)
            held = _still(held, self.held())
        return held

    def in_the_way(self, fd: int, unrelated: set[int]) -> dict[int, MemoryLock]:
        """Locks held now that a probe in this file would wait for.

        What turns out to have nothing to do with the file is added to ``unrelated``; the answer is
        that of the last look, right before the return.
        """
        while True:
            held = {s: k for s, k in self.held().items() if k.forking or s not in unrelated}
            strangers = {space for space, lock in held.items() if not lock.forking}
            if not strangers:
                return held
            related = self._mapping(fd, strangers)
            if related == strangers:
                return held
            unrelated |= strangers - related

    def wait_until_free(self, fd: int, seconds: float) -> None:
        """Return at a moment when nothing is in the way of a probe in this file; else HeldUp."""
        began = time.monotonic()
        since: dict[int, float] = {}
        before: dict[int, MemoryLock] = {}
        unrelated: set[int] = set()
        while held := self.in_the_way(fd, unrelated):
            now = time.monotonic()
            same = _still(before, held)
            since = {space: since[space] if space in same else now for space in held}
            waited = now - began
            if waited > _PREFER_FREE_S and now - min(since.values()) < _BRIEF_S:
                return
            if waited > seconds:
                raise HeldUp({held[space].pid for space in held})
            before = held
            time.sleep(_PAUSE_S)

    def mapping(self, fd: int) -> set[int] | None:
        """Address spaces that have an open file mapped; None if that cannot be told."""
        return self.mappers.of_file(fd) if self.mappers else None

    def spaces(self) -> set[int]:
        """Every address space."""
        return set(self._read()["memory"].tolist())

    def _mapping(self, fd: int, spaces: set[int]) -> set[int]:
        """Which of these have the file mapped; all of them if that cannot be told."""
        found = self.mapping(fd)
        return spaces if found is None else spaces & found

    def of_file(self, fd: int, held: Held) -> set[int]:
        """Processes that may have an open file mapped, of these that keep theirs locked."""
        return {held[space].pid for space in self._mapping(fd, set(held))} if held else set()

    def _read(self) -> np.ndarray:
        return np.frombuffer(syscalls.run_iterator(self.program), MEMORY_LOCK)


def _still(before: Held, now: Held) -> dict[int, MemoryLock]:
    """Those that may be held from before."""
    return {
        space: lock
        for space, lock in now.items()
        if space in before and lock.is_same(before[space])
    }
