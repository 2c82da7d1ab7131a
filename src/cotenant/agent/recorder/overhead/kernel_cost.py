"""What programs on kernel events cost, as they measured it: see bpf/kernel/meter.bpf.h."""

from typing import Any, Final

import numpy as np

from cotenant.probes.cpus import possible_cpus
from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.events import RECORDS
from cotenant.schema.families import KERNEL_FAMILIES
from cotenant.schema.layouts import METER

_KINDS: Final = {record.family: kind for kind, record in RECORDS.items()}
_KEY: Final = bytes(4)


class KernelCost:
    """The time of these programs since the recording began."""

    def __init__(self, meters: KernelMap) -> None:
        self._meters = meters
        self._cpus = possible_cpus()
        self._before: Any = self._spent()
        self._at_ns: int | None = None
        self._worst = 0.0

    def _spent(self) -> Any:
        raw = self._meters.lookup(_KEY)
        return np.frombuffer(raw or bytes(METER.itemsize * self._cpus), METER)

    def notes(self, now_ns: int) -> dict[str, Any]:
        """What ``sessions`` notes: by family, and the most that one CPU spent in a while."""
        now = self._spent()
        if self._at_ns is not None and now_ns > self._at_ns:
            spent = (now["spent_ns"] - self._before["spent_ns"]).sum(axis=1)
            self._worst = max(self._worst, int(spent.max()) / (now_ns - self._at_ns))
        self._before, self._at_ns = now, now_ns
        spent_ns, runs = now["spent_ns"].sum(axis=0), now["runs"].sum(axis=0)
        families = {
            family: {"spent_ns": int(spent_ns[_KINDS[family]]), "runs": int(runs[_KINDS[family]])}
            for family in KERNEL_FAMILIES
            if runs[_KINDS[family]]
        }
        return {"families": families, "busiest_cpu_share": round(self._worst, 4)}
