"""Programs that the kernel did not run each time they should have run."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from cotenant.agent.protocol.reports import Report, RunsMissed
from cotenant.probes import syscalls
from cotenant.probes.kernel import INSIDE
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import RUN

_EVERY_S: Final = 5.0
_NUMBERS: Final = {name: number for number, name in ENUMS["interrupted"].items()}


class Misses:
    """Looks at the kernel's counts now and then, and tells them when they have grown."""

    def __init__(
        self,
        programs: Mapping[str, int],
        maps: Mapping[str, int],
        tell: Callable[[Report], None],
    ) -> None:
        self._programs = {n: fd for n, fd in programs.items() if not n.endswith(INSIDE)}
        self._runs = maps.get("runs")
        self._tell = tell
        self._told: dict[str, int] = {}
        self._due = 0.0

    def tend(self, *, last: bool = False) -> None:
        """Tell what is new, if it is time."""
        now = time.monotonic()
        if now < self._due and not last:
            return
        self._due = now + _EVERY_S
        missed = {name: self._missed(name, fd) for name, fd in self._programs.items()}
        missed = {name: times for name, times in missed.items() if times}
        if missed != self._told:
            self._told = missed
            self._tell(RunsMissed(missed))

    def _missed(self, name: str, fd: int) -> int:
        """How often so far; what came in between, a second program may have done meanwhile."""
        times = syscalls.program_misses(fd)
        if times and self._runs is not None and name in _NUMBERS:
            key = _NUMBERS[name].to_bytes(4, "little")
            of_cpus = syscalls.map_lookup(self._runs, "runs", key) or b""
            times -= int(np.frombuffer(of_cpus, RUN)["inside"].sum())
        return max(times, self._told.get(name, 0))
