"""GPU memory that tenants hold, as counted in the kernel."""

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.agent.recorder.quotas import Quotas
from cotenant.agent.recorder.samplers.memory_levels import Holder, MemoryLevels
from cotenant.identity.ledger import Ledger
from cotenant.probes.kernel_maps import KernelMaps
from cotenant.schema.dimensions import GPU_MEMORY
from cotenant.schema.layouts import HOLDING, HOLDING_KEY
from cotenant.store.segment import rows_of

_SWEEP_NS: Final = 16 * 1_000_000_000
_AGAIN_NS: Final = 600 * 1_000_000_000  # All are written again: retention deletes rows by age.


class GpuMemory:
    """Reads what processes hold, and writes each tenant whose bytes changed."""

    table: Final = "gpu_memory"

    def __init__(
        self,
        maps: KernelMaps,
        ledger: Ledger,
        devices: Devices,
        since_boot_ns: int,
        clock: WallClock,
    ) -> None:
        self._holdings = maps["holdings"]
        self._sweeper = maps["sweep"]
        self._ledger = ledger
        self._devices = devices
        self._since_ns = since_boot_ns
        self._clock = clock
        self._looked_ns = 0
        self.levels = MemoryLevels()
        self._whole: set[Process] = set()
        self._unseen: set[Process] = set()
        self._gone: set[Process] = set()
        self._before: dict[Holder, tuple[int | None, int]] = {}
        self._all_told_ns = 0
        self._swept_ns = 0
        self._quotas = Quotas(maps)
        self._seen: tuple[Any, Any] = (np.empty(0, HOLDING_KEY), np.empty(0, HOLDING))

    @property
    def held(self) -> dict[Holder, int | None]:
        """Bytes of each tenant on each GPU, as sampled last; None where they are not known."""
        return {holder: size for holder, (size, _) in self._before.items()}

    def started(self, process: Process) -> None:
        """CUDA starts in this process: nothing it holds is missed."""
        self._whole.add(process)

    def unseen(self, processes: Iterable[Process]) -> None:
        """Some allocations of these processes are not seen."""
        self._unseen.update(processes)

    def gone(self, process: Process) -> None:
        """The process ended, and with it all that it held."""
        self._gone.add(process)
        self._whole.discard(process)
        self._unseen.discard(process)

    def look(self) -> None:
        """Read what is held now, before facts are taken.

        The fact of a context comes before what is held in it, so the sample that follows knows the
        GPU of every holding.
        """
        raw_keys, raw_values = self._holdings.items()
        keys, values = np.frombuffer(raw_keys, HOLDING_KEY), np.frombuffer(raw_values, HOLDING)
        self._looked_ns = time.monotonic_ns() + self._clock.offset_ns
        told = values["tenant"] != 0  # The kernel says last whose it is.
        self._seen = keys[told], values[told]

    def sample(self, now_ns: int) -> Any:
        """Rows for each change of a tenant's bytes on a GPU; now and then for all."""
        held = self._sum(*self._seen)
        levels = self.levels.take(self._looked_ns, held, self._gone, self._devices.gpu)
        self._sweep(now_ns)
        again = abs(now_ns - self._all_told_ns) >= _AGAIN_NS
        if again:
            self._all_told_ns = now_ns
        rows: list[dict[str, Any]] = []
        for holder in {**held, **self._before, **levels}:
            now, before, written = held.get(holder, (0, 0)), self._before.get(holder), len(rows)
            # Sums of changes end at what is held now, but for what changed during the look.
            for level in levels.get(holder, ()):
                then = level.bytes, level.allocations
                if now[0] is not None and level.at_ns < now_ns and then != before:
                    before = then
                    rows.append(_row(holder, level.at_ns, then))
            if before != now or (again and len(rows) == written):
                rows.append(_row(holder, now_ns, now))
        self._before = held
        return rows_of(GPU_MEMORY, rows)

    def _sweep(self, now_ns: int) -> None:
        """Have the kernel remove what ended processes left in its maps."""
        if self._gone or abs(now_ns - self._swept_ns) >= _SWEEP_NS:
            self._swept_ns = now_ns
            self._sweeper.read()
        self._gone.clear()

    def _refused(self) -> set[int]:
        """Tenants for some of whose contexts there was no room."""
        return self._quotas.refused_of("holdings")

    def _sum(self, keys: Any, values: Any) -> dict[Holder, tuple[int | None, int]]:
        ids = self._ledger.translate(
            np.ascontiguousarray(values["cgroup_id"]), np.ascontiguousarray(values["cgroup_v1_id"])
        )
        refused = self._refused()
        total: dict[Holder, int] = defaultdict(int)
        live: dict[Holder, int] = defaultdict(int)
        unsure: set[Holder] = set()
        for key, value, tenant in zip(keys, values, ids, strict=True):
            process = Process.of(key)
            if process in self._gone:
                continue
            holder = (int(tenant), self._devices.gpu(process, int(key["context"])))
            total[holder] += max(0, int(value["bytes"]))
            live[holder] += max(0, int(value["allocations"]))
            before = process.start_ns < self._since_ns and process not in self._whole
            missed = value["missed"] or int(value["tenant"]) in refused
            if before or missed or process in self._unseen:
                unsure.add(holder)
        return {h: (None if h in unsure else total[h], live[h]) for h in total}


def _row(holder: Holder, at_ns: int, held: tuple[int | None, int]) -> dict[str, Any]:
    columns = ("timestamp_ns", "cgroup_id", "gpu", "bytes", "allocations")
    return dict(zip(columns, (at_ns, *holder, *held), strict=True))
