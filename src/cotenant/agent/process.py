"""Processes that are followed, and for how long after their end."""

import os
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from cotenant.agent.bounds import HalfWord, Word

_KEPT: Final = 1024
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
    kept until many others have ended after it.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._processes: dict[Process, None] = {}

    def __contains__(self, process: object) -> bool:
        return process in self._processes

    def add(self, process: Process) -> Process | None:
        """This one ended; the one to forget now, if any."""
        self._processes[process] = None
        return self.oldest() if len(self._processes) > self._kept else None

    def oldest(self) -> Process | None:
        """The one that ended first, to be forgotten now; None if there is none."""
        oldest = next(iter(self._processes), None)
        if oldest is not None:
            del self._processes[oldest]
        return oldest


def environment(pid: int) -> list[bytes]:
    """What a process was started with, as far as it is of a sane size."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(_ENVIRONMENT_MAX).split(b"\0")
