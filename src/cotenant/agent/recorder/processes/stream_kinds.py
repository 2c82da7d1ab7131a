"""Which streams of a process are blocking: those that the legacy default stream waits for."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.recorder.processes.shares import Shares

UNKNOWN: Final = -1
BLOCKING: Final = 0
NON_BLOCKING: Final = 1  # CU_STREAM_NON_BLOCKING

_STREAMS_MAX: Final = 4096  # Of one process,
_MOST: Final = 1 << 17  # and of all.


@dataclass(slots=True)
class _ProcessStreams:
    tenant: str
    kinds: dict[int, int] = field(default_factory=dict)


class StreamKinds:
    """The flags with which streams were made, as far as there is room."""

    def __init__(self, most: int = _MOST) -> None:
        self._shares = Shares(most)
        self._processes: dict[Process, _ProcessStreams] = {}
        self._departed = Departed()

    def made(self, process: Process, stream: int, flags: int, tenant: str) -> None:
        """A process of this tenant made a stream; a handle may be used again."""
        known = self._processes.get(process) or _ProcessStreams(tenant)
        if stream not in known.kinds:
            if len(known.kinds) >= _STREAMS_MAX or not self._shares.make_room(
                known.tenant, process, self._departed, self._drop
            ):
                return
            self._shares.count(known.tenant, 1)
        self._processes[process] = known
        known.kinds[stream] = flags & NON_BLOCKING

    def kind(self, process: Process, stream: int) -> int:
        """BLOCKING or NON_BLOCKING; UNKNOWN for one that was made before, or left out."""
        known = self._processes.get(process)
        return UNKNOWN if known is None else known.kinds.get(stream, UNKNOWN)

    def gone(self, process: Process, tenant: str = "") -> None:
        """The process ended; its last rows may still be on their way."""
        oldest = self._departed.add(process, tenant)
        if oldest is not None:
            self._drop(oldest)

    def sweep(self, followed: AbstractSet[Process]) -> None:
        """Drop what ended a while ago, of all that the kernel has not ``followed`` since."""
        self._departed.sweep(self._processes, followed, self.gone, self._drop)

    def _drop(self, process: Process) -> None:
        if known := self._processes.pop(process, None):
            self._shares.count(known.tenant, -len(known.kinds))
