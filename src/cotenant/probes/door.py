"""The one door for probes: every placing and every removing goes through it.

The kernel waits for the memory lock of each process that maps the file, and no process on the host
can fork meanwhile. So one change goes at a time, right after a look that finds no lock in its way.
A lock that is taken between the look and the change cannot be foreseen.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeVar

from cotenant.probes.memory_locks import HeldUp, MemoryLocks

_T = TypeVar("_T")

# What is in the way of a removal for so long is waited for in the kernel.
PATIENCE_S: Final = 60.0
# For how long others wait for a change that waits itself.
_TURN_S: Final = 0.1
# Changes of one file follow each other without another look for so long.
_FRESH_S: Final = 0.002


class ChangeWatch(Protocol):
    """Notices a change that the kernel does not finish."""

    def during(self, files: Collection[int], what: str) -> AbstractContextManager[None]:
        """A change of probes in these open files is under way until the end of the block."""


class Unwatched:
    """For changes that wait for no other process."""

    def during(self, files: Collection[int], what: str) -> AbstractContextManager[None]:
        """See ChangeWatch."""
        return nullcontext()


class Door:
    """Lets one change through at a time, when no memory lock is in its way."""

    def __init__(self, locks: MemoryLocks | None = None, watch: ChangeWatch | None = None) -> None:
        self._locks = locks
        self._watch = watch or Unwatched()
        self._turn = threading.Lock()
        self._looked: tuple[int, float] = (-1, 0.0)

    def place(self, fd: int, change: Callable[[], _T], seconds: float) -> _T:
        """Place probes in an open file; HeldUp if a lock is in the way for so long."""
        until = time.monotonic() + seconds
        patience = 0.0
        while True:
            with self._turn:
                try:
                    self._look(fd, patience)
                except HeldUp:
                    if time.monotonic() > until:
                        raise
                else:
                    with self._watch.during([fd], "placed"):
                        done = change()
                    self._looked = fd, time.monotonic()
                    return done
            # Outside the turn: a lock that is kept for long delays no change of another file.
            if self._locks:
                self._locks.wait_until_free(fd, until - time.monotonic())
            patience = _TURN_S

    def remove(self, files: Collection[int], change: Callable[[Collection[int]], None]) -> None:
        """Remove the probes of those of these open files in whose way there is no lock.

        HeldUp if there is one in the way of each.
        """
        free, refused = self._free(files, 0)
        if not free:
            free, refused = self._free(files, _TURN_S)
        if free:
            with self._turn:
                free, refused = self._free(free, _TURN_S)
                self._remove(free, change)
        if not free and refused:
            raise refused

    def _free(self, files: Collection[int], seconds: float) -> tuple[list[int], HeldUp | None]:
        """The files in whose way there is no lock; the first is waited for. What was in the way."""
        free: list[int] = []
        refused = None
        for fd in files:
            try:
                self._look(fd, 0 if free else seconds)
                free.append(fd)
            except HeldUp as error:
                refused = error
        return free, refused

    def remove_patiently(self, fd: int, change: Callable[[], None]) -> None:
        """Remove the probes of an open file when nothing is in the way, in the end anyway."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with contextlib.suppress(HeldUp):
                self.remove([fd], lambda _: change())
                return
            time.sleep(_TURN_S)
        self.remove_anyway([fd], lambda _: change())

    def remove_anyway(
        self, files: Collection[int], change: Callable[[Collection[int]], None]
    ) -> None:
        """Remove the probes of these open files, whatever is in the way."""
        with self._turn:
            self._remove(files, change)

    def _remove(self, files: Collection[int], change: Callable[[Collection[int]], None]) -> None:
        if not files:
            return
        with self._watch.during(files, "removed"):
            change(files)

    def _look(self, fd: int, seconds: float) -> None:
        looked, when = self._looked
        if self._locks and (looked != fd or time.monotonic() - when > _FRESH_S):
            self._locks.wait_until_free(fd, seconds)
