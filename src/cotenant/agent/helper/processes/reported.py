"""Processes that the helper may tell the recorder about: those that its own probes reported.

The recorder reads what tenants write. Whoever takes it over must not get to ask about any process.
"""

from typing import Final

from cotenant.agent.process import Process
from cotenant.probes import syscalls
from cotenant.schema.constants import MAPS

_PID_BYTES: Final = MAPS["processes"][0]
_START_BYTES: Final = 8  # What an entry begins with.


class Reported:
    """Looks into the map of processes that called a probed function; only programs write to it."""

    def __init__(self, processes: int) -> None:
        self._fd = processes

    def __contains__(self, process: object) -> bool:
        if not isinstance(process, Process):
            return False
        key = process.pid.to_bytes(_PID_BYTES, "little")
        entry = syscalls.map_lookup(self._fd, "processes", key)
        if entry is None:
            return False
        return int.from_bytes(entry[:_START_BYTES], "little") == process.start_ns
