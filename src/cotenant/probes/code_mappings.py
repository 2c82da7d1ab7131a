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
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.probes import syscalls
from cotenant.probes.memory_locks import HeldUp, MemoryLock, MemoryLocks
from cotenant.schema.layouts import MAPPING

_AT_ONCE: Final = 16384
_AHEAD: Final = 4
_LOOK_S: Final = 5.0  # For one part: on a busy host a thread waits for its CPU.
_BRIEFLY_S: Final = 0.1
_BEHIND_MAX: Final = 8
_WAIT_S: Final = 1.5

Mappings = npt.NDArray[np.void]


class CodeMappings:
    """Asks the kernel's iterators."""

    def __init__(self, program: int, locks: MemoryLocks) -> None:
        self._program = program
        self._locks = locks
        self._behind: list[threading.Thread] = []

    def of(self, pid: int) -> Mappings:
        """Every file that a process has mapped as code; whoever asks waits for that process."""
        return mappings_of_process(self._program, pid)

    def everywhere(self, silent: dict[int, MemoryLock] | None = None) -> Iterator[Mappings]:
        """Those of all processes, part by part: there may be more than we have memory for.

        Some may come twice. Processes that keep theirs locked are left out, and their address
        spaces are added to ``silent``.
        """
        kept = self._locks.kept()
        if not kept and not self._left_behind():
            try:
                yield from self._in_time(
                    lambda: syscalls.iterate(self._program, MAPPING.itemsize * _AT_ONCE)
                )
            except HeldUp:
                kept = self._locks.kept()
            else:
                return
        if silent is not None:
            silent |= kept
        pids = self._locks.pids(self._locks.spaces() - kept.keys())
        yield from self._in_time(lambda: self._one_by_one(pids))

    def of_file(self, fd: int) -> Iterator[Mappings]:
        """Those of all processes that have an open file mapped, and perhaps of others.

        HeldUp if one of them keeps its mappings locked.
        """
        self._locks.wait_until_free(fd, _WAIT_S)
        spaces = self._locks.mapping(fd)
        if spaces is not None and self._by_process:
            pids = self._locks.pids(spaces)
            yield from self._in_time(lambda: self._one_by_one(pids))
            return
        kept: dict[int, MemoryLock] = {}
        yield from self.everywhere(kept)
        if held := self._locks.of_file(fd, kept):
            raise HeldUp(held)

    @cached_property
    def _by_process(self) -> bool:
        """Whether this kernel can be asked about one process."""
        try:
            syscalls.run_iterator(self._program, pid=os.getpid())
        except OSError as error:
            if not _asks_for_all(error):
                raise
            return False
        return True

    def _one_by_one(self, pids: Iterable[int]) -> Iterator[bytes]:
        for pid in pids:
            try:
                yield syscalls.run_iterator(self._program, pid=pid)
            except ProcessLookupError:
                continue
            except OSError as error:
                if _asks_for_all(error):
                    raise HeldUp([pid]) from None
                raise

    def _left_behind(self) -> int:
        self._behind = [thread for thread in self._behind if thread.is_alive()]
        return len(self._behind)

    def _in_the_way(self) -> set[int]:
        return {lock.pid for lock in self._locks.kept().values()}

    def _in_time(self, parts: Callable[[], Iterator[bytes]]) -> Iterator[Mappings]:
        """What another thread reads; HeldUp if it waits too long, and perhaps for ever."""
        if self._left_behind() >= _BEHIND_MAX:
            raise HeldUp(self._in_the_way())
        ahead = _ReadAhead(parts)
        try:
            while (part := ahead.take(_LOOK_S)) is not None:
                yield np.frombuffer(part, MAPPING)
        except queue.Empty:
            self._behind.append(ahead.thread)
            raise HeldUp(self._in_the_way()) from None
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
