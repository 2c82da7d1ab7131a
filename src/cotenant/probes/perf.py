"""Perf events of every CPU: opened early, since some kernels ask for CAP_SYS_ADMIN."""

import os
import struct
from dataclasses import dataclass, field
from typing import Final

from cotenant.probes import syscalls
from cotenant.probes.cpus import online_cpus

_TICKS_A_SECOND: Final = 4
_TYPE_SOFTWARE: Final = 1
_CPU_CLOCK: Final = 0
_FREQUENCY: Final = 1 << 10  # The period is a frequency.


@dataclass(slots=True)
class Ticks:
    """A software clock on each CPU, on which a program can run; or why there is none."""

    events: list[int] = field(default_factory=list)
    refused: str | None = None

    def close(self) -> None:
        """Stop them."""
        for fd in self.events:
            os.close(fd)
        self.events.clear()


def open_ticks() -> Ticks:
    """A clock that ticks a few times a second on every CPU."""
    attributes = struct.pack(
        "IIQQQQQ", _TYPE_SOFTWARE, 112, _CPU_CLOCK, _TICKS_A_SECOND, 0, 0, _FREQUENCY
    ).ljust(112, b"\0")
    ticks = Ticks()
    try:
        for cpu in online_cpus():
            ticks.events.append(syscalls.perf_event_open(attributes, pid=-1, cpu=cpu))
    except OSError as error:
        ticks.close()
        ticks.refused = str(error.strerror)
    return ticks
