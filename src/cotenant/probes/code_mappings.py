"""What processes have mapped as code, asked so that none of them can hold up everybody.

The kernel locks the mappings of each process that it tells of. A process can keep its own locked:
it reads, from its own memory, a page of a file that a file system of its own never delivers. So
all processes are asked about in a thread that can be left behind, and from then on one by one,
without those that keep themselves locked.
"""

import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.errors import ProbeError
from cotenant.probes import syscalls
from cotenant.probes.mappers import Mappers
from cotenant.schema.layouts import LOCKED, MAPPING

_AT_ONCE: Final = 16384
_AHEAD: Final = 4
_LOOK_S: Final = 5.0  # For one part: on a busy host a thread waits for its CPU.
_BRIEFLY_S: Final = 0.1
_LONG_S: Final = 1.0
_PAUSE_S: Final = 0.01
_BEHIND_MAX: Final = 8

Mappings = npt.NDArray[np.void]


class HeldUp(ProbeError):
    """A process lets nobody look at what it has mapped, or place a probe there."""


class CodeMappings:
    """Asks the kernel's iterators."""

    def __init__(self, program: int, locked_program: int, mappers: Mappers | None = None) -> None:
        self._program = program
        self._locked_program = locked_program
        self._mappers = mappers
        self._behind: list[threading.Thread] = []

    def of(self, pid: int) -> Mappings:
        """Every file that a process has mapped as code; whoever asks waits for that process."""
        return mappings_of_process(self._program, pid)

    def everywhere(self, silent: dict[int, int] | None = None) -> Iterator[Mappings]:
        """Those of all processes, part by part: there may be more than we have memory for.

        Some may come twice. Processes that keep theirs locked are added to ``silent``, each with
        its address space.
        """
        if not self._left_behind():
            try:
                yield from self._in_time(
                    lambda: syscalls.iterate(self._program, MAPPING.itemsize * _AT_ONCE)
                )
            except HeldUp:
                pass
            else:
                return
        locked = self._locked_for(_BRIEFLY_S)
        if silent is not None:
            silent |= locked
        yield from self._in_time(lambda: self._one_by_one(locked))

    def mapping(self, fd: int, locked: Mapping[int, int]) -> set[int]:
        """Processes that may have an open file mapped, of some with these address spaces."""
        if self._mappers is None or not locked:
            return set(locked)
        spaces = self._mappers.of_file(fd, set(locked.values()))
        return {pid for pid, space in locked.items() if space in spaces}

    def check_unlocked(self, fd: int) -> None:
        """HeldUp if a process keeps its mappings locked that a probe in this file would wait for.

        Who places a probe waits for all that have the file mapped, as code or not, and for all
        that copy their memory to fork; and the kernel lets nobody on the host fork meanwhile.
        """
        locked = self._locked_for(_LONG_S)
        held = self.mapping(fd, locked)
        if self._mappers is not None and locked:
            forking = self._mappers.forking(set(locked.values()))
            held |= {pid for pid, space in locked.items() if space in forking}
        if held:
            raise held_up_by(held)

    def _locked_for(self, seconds: float) -> dict[int, int]:
        """Processes whose mappings one and the same keeps locked all the while, and which."""
        until = time.monotonic() + seconds
        held = self._owners()
        held.pop(os.getpid(), None)
        while held and time.monotonic() < until:
            time.sleep(_PAUSE_S)
            now = self._owners()
            held = {pid: by for pid, by in held.items() if now.get(pid) == by}
        return {pid: space for pid, (_, space) in held.items()}

    def _owners(self) -> dict[int, tuple[int, int]]:
        """Who has locked the mappings of which process, and its address space."""
        found = np.frombuffer(syscalls.run_iterator(self._locked_program), LOCKED)
        by = zip(found["owner"].tolist(), found["memory"].tolist(), strict=True)
        return dict(zip(found["pid"].tolist(), by, strict=True))

    def _one_by_one(self, besides: Collection[int]) -> Iterator[bytes]:
        for pid in [int(name) for name in os.listdir("/proc") if name.isdecimal()]:
            if pid in besides:
                continue
            try:
                yield syscalls.run_iterator(self._program, pid=pid)
            except ProcessLookupError:
                continue
            except OSError as error:
                if _asks_for_all(error):
                    raise HeldUp("a process keeps its memory locked") from None
                raise

    def _left_behind(self) -> int:
        self._behind = [thread for thread in self._behind if thread.is_alive()]
        return len(self._behind)

    def _in_time(self, parts: Callable[[], Iterator[bytes]]) -> Iterator[Mappings]:
        """What another thread reads; HeldUp if it waits too long, and perhaps for ever."""
        if self._left_behind() >= _BEHIND_MAX:
            raise HeldUp("processes keep their memory locked")
        ahead = _ReadAhead(parts)
        try:
            while (part := ahead.take(_LOOK_S)) is not None:
                yield np.frombuffer(part, MAPPING)
        except queue.Empty:
            self._behind.append(ahead.thread)
            raise HeldUp("a process keeps its memory locked") from None
        finally:
            ahead.enough.set()


class _ReadAhead:
    """Reads parts in a thread of its own, a few before they are taken."""

    def __init__(self, parts: Callable[[], Iterator[bytes]]) -> None:
        self._parts = parts
        self._came: queue.Queue[bytes | BaseException | None] = queue.Queue(_AHEAD)
        self.enough = threading.Event()
        self.thread = threading.Thread(target=self._read, name="mappings", daemon=True)
        self.thread.start()

    def take(self, seconds: float) -> bytes | None:
        """The next part; None after the last. queue.Empty if none comes in this time."""
        part = self._came.get(timeout=seconds)
        if isinstance(part, BaseException):
            raise part
        return part

    def _read(self) -> None:
        try:
            for part in self._parts():
                if not self._put(part):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - for whoever asked
            self._put(error)

    def _put(self, thing: bytes | BaseException | None) -> bool:
        """Whether somebody still wants it."""
        while not self.enough.is_set():
            try:
                self._came.put(thing, timeout=_BRIEFLY_S)
            except queue.Full:
                continue
            return True
        return False


def mappings_of_process(program: int, pid: int) -> Mappings:
    """What an iterator over mappings tells of one process."""
    try:
        return np.frombuffer(syscalls.run_iterator(program, pid=pid), MAPPING)
    except OSError as error:
        if not _asks_for_all(error):
            raise
    mappings = np.frombuffer(syscalls.run_iterator(program), MAPPING)
    return np.compress(mappings["process"] == pid, mappings)


def _asks_for_all(error: OSError) -> bool:
    """Before Linux commit f0d74c4da1f0 ("bpf: Parameterize task iterators.") (v6.1)."""
    return error.errno in (errno.E2BIG, errno.EINVAL)


def held_up_by(pids: Collection[int]) -> HeldUp:
    """What to tell of processes that keep their mappings locked."""
    return HeldUp(f"process {min(pids)} keeps its memory locked: end that process")
