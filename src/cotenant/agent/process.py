"""Processes that are followed, and for how long after their end."""

import os
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from cotenant.agent.bounds import HalfWord, Word

_KEPT: Final = 1024  # Of one tenant, and of all so many times as many.
_TENANTS: Final = 16
_TICK_NS: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_ENVIRONMENT_MAX: Final = 1 << 20


class Process(NamedTuple):
    """A process for ever: pids come round again."""

    pid: HalfWord
    start_ns: Word

    @classmethod
    def of(cls, record: Any) -> Self:
        """Whose record of the kernel side this is."""
        return cls(int(record["pid"]), int(record["process_start_ns"]))


class Nameless(NamedTuple):
    """A kernel that was launched, and that nobody has named."""

    process: Process
    handle: Word
    stub: Word


class Gone(OSError):
    """The process has ended, or its number belongs to another one now."""


def check(process: Process) -> None:
    """Raise Gone unless the pid still is the process that was meant."""
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text()
        ticks = int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError) as error:
        raise Gone(str(error)) from error
    if abs(ticks * _TICK_NS - process.start_ns) > 2 * _TICK_NS:
        raise Gone(f"process {process.pid} is another one now")


class Departed:
    """Processes that ended. Their last rows may still be on their way: what is known of one is
    kept until many others of its tenant have ended after it, or for a while.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._tenant_of: dict[Process, str] = {}
        self._of: dict[str, dict[Process, int]] = {}  # By tenant: how often was swept before.
        self._sweeps = 0

    def __contains__(self, process: object) -> bool:
        return process in self._tenant_of

    def add(self, process: Process, tenant: str = "") -> Process | None:
        """This one ended; the one to forget now, if any."""
        tenant = self._tenant_of.setdefault(process, tenant)
        mine = self._of.setdefault(tenant, {})
        mine.setdefault(process, self._sweeps)
        if len(mine) > self._kept:
            return self.oldest(tenant)
        if len(self._tenant_of) > self._kept * _TENANTS:
            return self.oldest(max(self._of, key=lambda each: len(self._of[each])))
        return None

    def oldest(self, tenant: str = "") -> Process | None:
        """The one of a tenant that ended first, to be forgotten now; None if there is none."""
        mine = self._of.get(tenant, {})
        oldest = next(iter(mine), None)
        if oldest is not None:
            del mine[oldest], self._tenant_of[oldest]
            if not mine:
                del self._of[tenant]
        return oldest

    def sweep(
        self,
        known: Iterable[Process],
        followed: AbstractSet[Process],
        end: Callable[[Process], object],
        drop: Callable[[Process], object],
    ) -> None:
        """Drop those that had ended by the last time but one; the kernel says who is ``followed``.

        Nobody tells the end of some, and rows or answers that come late make others known again
        that were dropped: they end now.
        """
        for process in set(known) - followed:
            end(process)
        self._sweeps += 1
        for tenant, mine in list(self._of.items()):
            old = [process for process, swept in mine.items() if swept < self._sweeps - 1]
            for _ in old:
                if (oldest := self.oldest(tenant)) is not None:
                    drop(oldest)


def environment(pid: int) -> list[bytes]:
    """What a process was started with, as far as it is of a sane size."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(_ENVIRONMENT_MAX).split(b"\0")
