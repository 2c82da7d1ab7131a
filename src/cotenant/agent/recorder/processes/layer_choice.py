"""``--layers auto``: the runtime's functions are probed until those of the driver suffice.

They do once enough runtime launches contained exactly one driver launch with a named handle: then a
second probe on every launch tells nothing new, and is removed.
"""

from collections import Counter
from functools import cache
from typing import Final

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.probes.function import Library
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import ENUMS

ENOUGH: Final = 1000
_LAUNCH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "launch")
_KEY: Final = ("pid", "process_start_ns", "handle", "op", "api", "function")
_PROCESSES_MAX: Final = 64


class LayerChoice:
    """Counts launches seen at each layer, and decides."""

    def __init__(self, asked: str) -> None:
        self._auto = asked == "auto"
        self.runtime = asked != "driver"
        self._told = self.runtime
        self._gave_up = False
        self.matched = 0
        self.unmatched = 0
        # Launches of the latest processes: through the runtime, matched, and of the driver alone.
        self.by_process: dict[Process, list[int]] = {}

    def see(self, batch: Batch, names: KernelNames) -> None:
        """Count the launches in a batch."""
        distinct, counts = batch.tally(*_KEY)
        process_of = cache(Process)
        launches: Counter[tuple[bool, Process, int, int]] = Counter()
        for (pid, start_ns, handle, op, api, inner), count in zip(
            distinct.tolist(), counts, strict=True
        ):
            if op == _LAUNCH:
                process = process_of(pid, start_ns)
                launches[bool(names.eras(process, handle, 0)), process, api, inner] += count
        # Those without a name first: they speak against a decision that the others make.
        for (named, process, api, inner), count in sorted(launches.items()):
            self._launches(process, api, inner, count, named=named)

    def _launches(
        self, process: Process, outer: int, within: int, count: int, *, named: bool
    ) -> None:
        api, inner = BY_ID.get(outer), BY_ID.get(within)
        if api is None or inner is None:
            return
        seen = self.by_process.pop(process, [0, 0, 0])
        self.by_process[process] = seen
        if len(self.by_process) > _PROCESSES_MAX:
            del self.by_process[next(iter(self.by_process))]
        if api.library is Library.CUDART:
            seen[0] += count
            matched = inner.library is Library.CUDA
            seen[1] += count if matched else 0
            self._judge(count, good=matched and named)
        else:
            seen[2] += count
            if not named and not self.runtime and self._auto:
                # A kernel without a name, and the layer that might have it is off.
                self._gave_up = self.runtime = True

    def _judge(self, count: int, *, good: bool) -> None:
        if good:
            self.matched += count
        else:
            self.unmatched += count
        if self._auto and not self._gave_up and self.matched >= ENOUGH and not self.unmatched:
            self.runtime = False

    def take_decision(self) -> bool:
        """Whether the helper must be told something new."""
        news = self._told != self.runtime
        self._told = self.runtime
        return news

    def describe(self) -> str:
        """For ``sessions``: what was asked for, and what it came to."""
        if not self._auto:
            return "both" if self.runtime else "driver"
        return "auto: both" if self.runtime else f"auto: driver after {self.matched} launches"
