"""Programs that the kernel did not run each time they should have run."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from cotenant.agent.protocol.reports import Report, RunsMissed
from cotenant.probes import syscalls

_EVERY_S: Final = 5.0


class Misses:
    """Looks at the kernel's counts now and then, and tells them when they have grown."""

    def __init__(self, programs: Mapping[str, int], tell: Callable[[Report], None]) -> None:
        self._programs = programs
        self._tell = tell
        self._told: dict[str, int] = {}
        self._due = 0.0

    def tend(self, *, last: bool = False) -> None:
        """Tell what is new, if it is time."""
        now = time.monotonic()
        if now < self._due and not last:
            return
        self._due = now + _EVERY_S
        missed = {name: syscalls.program_misses(fd) for name, fd in self._programs.items()}
        missed = {name: times for name, times in missed.items() if times}
        if missed != self._told:
            self._told = missed
            self._tell(RunsMissed(missed))
