"""What is known of the processes that use GPUs: kernels, graphs, devices, memory, open calls."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice, zip_longest
from typing import Any, Final, Protocol

import numpy as np

from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.codec import slices
from cotenant.agent.protocol.reports import (
    Inspected,
    KernelsFound,
    MemoryUnsure,
    Report,
    TextsRead,
)
from cotenant.agent.protocol.requests import (
    ChooseLayers,
    FollowPointers,
    HandedOut,
    Inspect,
    Request,
)
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns import Columns, Maker
from cotenant.agent.recorder.ingest.columns.communicator import (
    CollectiveBytesColumn,
    MembershipColumn,
)
from cotenant.agent.recorder.ingest.columns.gpu import GpuColumn
from cotenant.agent.recorder.ingest.columns.graph import GraphColumn
from cotenant.agent.recorder.ingest.columns.kernel import KernelColumn
from cotenant.agent.recorder.ingest.columns.owner import owner_of
from cotenant.agent.recorder.ingest.spans import SpanMaker
from cotenant.agent.recorder.processes.communicators import Communicators
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.agent.recorder.processes.graphs import Graphs
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.agent.recorder.processes.layer_choice import LayerChoice
from cotenant.agent.recorder.samplers.gpu_memory import GpuMemory
from cotenant.agent.recorder.samplers.graph_kernels import GraphKernels
from cotenant.agent.recorder.samplers.in_flight import InFlight
from cotenant.agent.recorder.samplers.sampler import Sampler
from cotenant.agent.recorder.samplers.timings import Timings
from cotenant.identity.ledger import Ledger
from cotenant.probes.kernel_maps import KernelMap, KernelMaps
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import PROCESS

FactHandler = Callable[[Any, bytes], None]

_WAIT_S: Final = 2.0  # How long rows wait for names that the helper looks for.
_AT_ONCE: Final = 4096
_POINTERS_MAX: Final = 65536
_NAME_MAX: Final = max(len(function.symbol) for function in FUNCTIONS)


class HelperEnd(Protocol):
    """The helper, as far as questions go."""

    def ask(self, request: Request) -> None:
        """Send a question."""

    def hear_until(self, answer: Report, seconds: float) -> bool:
        """Listen until this answer came; false if it did not in time."""


class GpuProcesses:
    """Learns from facts and from the helper's answers; gives makers of columns, and samplers."""

    def __init__(
        self,
        seed: str,
        ledger: Ledger,
        helper: HelperEnd,
        layers: str,
        clock: WallClock,
    ) -> None:
        self._ledger = ledger
        self._helper = helper
        self.communicators = Communicators(self._whose)
        self.names = KernelNames()
        self.graphs = Graphs(self.names, seed, ledger.outermost)
        self.devices = Devices(ledger.outermost)
        self.layers = LayerChoice(layers)
        self.spans = SpanMaker()
        self._clock = clock
        self._timings = Timings(ledger, clock)
        self._kernel = KernelColumn(self.names, self.graphs)
        self._gpu = GpuColumn(self.devices)
        self._pointers: dict[tuple[Process, int, str], HandedOut] = {}
        self._seen_pointers: dict[tuple[Process, int, str], None] = {}
        self._questions = 0
        self._silent = 0
        self._memory: GpuMemory | None = None
        self._in_flight: InFlight | None = None
        self._followed: KernelMap | None = None

    def attach(self, maps: KernelMaps) -> None:
        """The kernel's maps are here; what processes held before is unknown."""
        since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._followed = maps["processes"]
        if "holdings" in maps:
            self._memory = GpuMemory(maps, self._ledger, self.devices, since, self._clock)
        if "calls_under_way" in maps:
            under_way = maps["calls_under_way"]
            self._in_flight = InFlight(under_way, self._ledger, self.communicators, self._clock)

    def makers(self) -> dict[str, Maker]:
        """Columns that depend on what is known here."""
        return {
            "kernel": self._kernel,
            "gpu": self._gpu,
            "graph": GraphColumn(self.graphs),
            "comm": MembershipColumn(self.communicators),
            "nccl_bytes": CollectiveBytesColumn(self.communicators),
        }

    def handlers(self) -> dict[str, FactHandler]:
        """What to do with each kind of fact."""
        return {
            "FORGET": self._forget,
            "GRAPH": lambda fact, _: self.graphs.take(fact, Process.of(fact)),
            "CONTEXT": lambda fact, _: self.devices.context(fact, Process.of(fact)),
            "DEVICE": lambda fact, text: self.devices.device(fact, Process.of(fact), text),
            "MEMORY": self._cuda_starts,
            "POINTER": self._pointer,
            "ELAPSED": self._timings.elapsed,
            "STREAM": self._stream,
        }

    def gone(self, process: Process, tenant: str, ended_ns: int) -> None:
        """A process of this tenant ended then, UTC."""
        self.names.gone(process)
        self.graphs.gone(process)
        self.devices.gone(process, tenant)
        self.spans.gone(process, ended_ns, tenant)
        if self._memory is not None:
            self._memory.gone(process)

    def sweep(self) -> None:
        """Let go of processes that ended a while ago; rows that came so far are to be made."""
        if self._followed is None:
            return
        keys, values = self._followed.items()
        pids, starts = np.frombuffer(keys, np.uint32), np.frombuffer(values, PROCESS)["start_ns"]
        followed = set(map(Process, pids.tolist(), starts.tolist()))
        kept = (self.names, self.graphs, self.devices, self.communicators, self.spans.streams)
        for each in kept:
            each.sweep(followed)

    def look_up(self, batches: Iterable[tuple[Columns, Batch]]) -> None:
        """Have names looked for that rows of these batches lack; the rows wait, not for long."""
        nameless: list[Nameless] = []
        for columns, batch in batches:
            if columns.family == "cuda":
                self.layers.see(batch, self.names)
                self._gpu.see(batch)
                nameless += self._kernel.nameless(batch)
        pointers, self._pointers = list(self._pointers.values()), {}
        for part in slices(pointers):
            self._helper.ask(FollowPointers(part))
        if self.layers.take_decision():
            self._helper.ask(ChooseLayers(self.layers.runtime))
        devices = self.devices.take_questions()
        if not nameless and not devices:
            return
        self._questions += 1
        for processes in slices(devices):
            self._helper.ask(Inspect(processes=processes))
        # The rest is asked for when it is launched again.
        for kernels in slices(islice(self._in_turn(nameless), _AT_ONCE)):
            self._helper.ask(Inspect(kernels=kernels))
        self._helper.ask(Inspect(self._questions))
        # A tenant whose files never answer must not slow everybody down again and again.
        wait = _WAIT_S / (1 + self._silent)
        heard = self._helper.hear_until(Inspected(self._questions), wait)
        self._silent = 0 if heard else min(self._silent + 1, 50)

    def _in_turn(self, nameless: Iterable[Nameless]) -> Iterator[Nameless]:
        """One kernel of each tenant after the other: who has many keeps nobody from being named."""
        whose = cache(self._tenant)
        lines: dict[str, list[Nameless]] = {}
        for one in nameless:
            lines.setdefault(whose(one.process), []).append(one)
        for turn in zip_longest(*lines.values()):
            yield from (one for one in turn if one is not None)

    def _tenant(self, process: Process) -> str:
        return self._ledger.outermost(*self.devices.cgroup(process))

    def _whose(self, process: Process) -> str:
        """The tenant of a process; empty as long as none of its facts told."""
        if tenant := self.names.tenant(process):
            return tenant
        cgroups = self.devices.cgroup(process)
        return self._ledger.outermost(*cgroups) if any(cgroups) else ""

    def memory_unsure(self, report: MemoryUnsure) -> None:
        """Of what these processes hold, not all is seen."""
        if self._memory is not None:
            self._memory.unseen(report.processes)

    def kernels_found(self, report: KernelsFound) -> None:
        """Names of kernels that were asked for."""
        if report.process not in self.names:
            self.names.follow(report.process, self._tenant(report.process))
        for handle, stub, name, known in report.kernels:
            nameless = Nameless(report.process, handle, stub)
            if not known:
                self.names.call_unknown(nameless, name)
            elif not self.names.learn(report.process, stub or handle, name, 0):
                # Nobody needs to look for it again.
                self.names.call_unknown(nameless, self.names.unknown(*nameless))

    def texts_read(self, report: TextsRead) -> None:
        """Names that nobody had to ask for."""
        if report.process not in self.names:
            self.names.follow(report.process, report.tenant)
        for handle, text in report.texts:
            if text:
                self.names.learn(report.process, handle, text, 0)

    def add(self, batch: Batch, rows: Any) -> None:
        """A batch of CUDA calls, and the rows that were made of it."""
        self.spans.add(batch, rows, self._ledger.outermost, self._clock.utc)
        if self._memory is not None:
            self._memory.levels.add(batch, rows)

    def look(self) -> None:
        """Read what processes hold; facts are to be taken after this."""
        if self._memory is not None:
            self._memory.look()

    def samplers(self) -> list[Sampler]:
        """Tables of what processes hold and do; of those that the kernel's maps allow."""
        kernel: tuple[Sampler | None, ...] = (self._memory, self._in_flight)
        there = [sampler for sampler in kernel if sampler is not None]
        graphs = GraphKernels(self.graphs, self._ledger, self._clock)
        return [*there, graphs, self._timings]

    def held(self) -> dict[tuple[int, str | None], int | None]:
        """Bytes that each cgroup holds on each GPU; None where they are not known."""
        return self._memory.held if self._memory is not None else {}

    def note_sharing(self) -> None:
        """Have the ledger know how each tenant shares its GPUs."""
        for ids, mode in self.devices.sharing().items():
            self._ledger.shared(owner_of(self._ledger, *ids), mode)

    def _forget(self, fact: Any, _: bytes) -> None:
        self.names.forget(Process.of(fact), int(fact["handle"]), int(fact["timestamp_ns"]))

    def _stream(self, fact: Any, _: bytes) -> None:
        """A process made a stream."""
        tenant = self._ledger.outermost(int(fact["cgroup_id"]), int(fact["cgroup_v1_id"]))
        self.spans.streams.made(Process.of(fact), int(fact["address"]), int(fact["other"]), tenant)

    def _cuda_starts(self, fact: Any, _: bytes) -> None:
        if self._memory is not None:
            self._memory.started(Process.of(fact))

    def _pointer(self, fact: Any, text: bytes) -> None:
        """A function was handed out by address; each process's each once."""
        process, address = Process.of(fact), int(fact["handle"])
        name = text.decode("utf-8", "replace")
        key = (process, address, name)
        if not address or len(name) > _NAME_MAX or key in self._seen_pointers:
            return
        self._seen_pointers[key] = None
        while len(self._seen_pointers) > _POINTERS_MAX:
            self._seen_pointers.pop(next(iter(self._seen_pointers)))
        version, flags = int(fact["other"]) & 0xFFFFFFFF, int(fact["rank"])
        self._pointers[key] = HandedOut(process, address, name, version, flags)
