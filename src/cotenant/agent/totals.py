"""Exact totals out of the kernel, each second, and from them what became of every event.

    seen (the kernel's count) = stored (ours) + shed + lost (the kernel's) + queued

``queued`` is what is still on its way when a window ends; after the last one it must be zero.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.columns.owner import owners
from cotenant.identity.ledger import Ledger
from cotenant.probes import syscalls
from cotenant.probes.kernel import counted
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import TOTAL, TOTAL_KEY

_SUMMED: Final = ("count", "sum_ns", "bytes", "rows", "shed", "lost")

Tally = tuple[str, int]  # Family and stored cgroup id.


def _possible_cpus() -> int:
    with open("/sys/devices/system/cpu/possible") as file:
        return int(file.read().strip().split("-")[-1].split(",")[-1]) + 1


@dataclass(slots=True)
class Losses:
    """What became of the events of each family and tenant, since the recording began."""

    seen: Counter[Tally] = field(default_factory=Counter)
    shed: Counter[Tally] = field(default_factory=Counter)
    lost: Counter[Tally] = field(default_factory=Counter)
    stored: Counter[Tally] = field(default_factory=Counter)

    def queued(self, tally: Tally) -> int:
        """Seen, and neither stored nor shed nor lost so far."""
        return self.seen[tally] - self.stored[tally] - self.shed[tally] - self.lost[tally]

    def imbalance(self) -> dict[Tally, int]:
        """After the last drain: families and tenants whose events do not add up."""
        tallies = {*self.seen, *self.stored}
        return {tally: self.queued(tally) for tally in tallies if self.queued(tally)}


class Totals:
    """Reads the kernel's totals and writes down what changed."""

    def __init__(self, totals_fd: int, counters_fd: int, ledger: Ledger) -> None:
        self._totals_fd = totals_fd
        self._counters_fd = counters_fd
        self._ledger = ledger
        self._cpus = _possible_cpus()
        self._before: dict[bytes, _Snapshot] = {}
        self._told = Losses()
        self.losses = Losses()

    def counters(self) -> dict[str, int]:
        """What the programs could not do, by name; only what happened."""
        found = {}
        for number, name in ENUMS["counter"].items():
            if name == "END":
                continue
            raw = syscalls.map_lookup(
                self._counters_fd, number.to_bytes(4, "little"), 8 * self._cpus
            )
            total = int(np.frombuffer(raw or b"", np.uint64).sum())
            if total:
                found[name.lower()] = total
        return found

    def stored(
        self, family: str, ids: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
    ) -> None:
        """Rows of these tenants were handed to the store."""
        for cgroup, count in zip(ids.tolist(), counts.tolist(), strict=True):
            if count:
                self.losses.stored[family, cgroup] += count

    def read(self, now_ns: int) -> Any:
        """Rows of ``totals`` for the time since the last reading."""
        keys, values = syscalls.map_items(
            self._totals_fd, TOTAL_KEY.itemsize, TOTAL.itemsize * self._cpus
        )
        entries = np.frombuffer(keys, TOTAL_KEY)
        per_cpu = np.frombuffer(values, TOTAL).reshape(len(entries), self._cpus)
        ids = owners(self._ledger, entries)
        rows = []
        for index, entry in enumerate(entries):
            row = self._row(entry, per_cpu[index], int(ids[index]), now_ns)
            if row is not None:
                rows.append(row)
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def _row(
        self, entry: np.void, cpus: npt.NDArray[np.void], cgroup: int, now_ns: int
    ) -> dict[str, Any] | None:
        counts = counted(int(entry["function"]))
        if counts is None:
            return None
        family, function = counts
        now = {name: int(cpus[name].sum()) for name in _SUMMED}
        histogram = cpus["histogram"].astype(np.int64).sum(axis=0)
        before = self._before.get(entry.tobytes())
        self._before[entry.tobytes()] = _Snapshot(now, histogram)
        delta = {name: now[name] - (before.sums[name] if before else 0) for name in _SUMMED}
        tally = (family, cgroup)
        self.losses.seen[tally] += delta["rows"]
        self.losses.shed[tally] += delta["shed"]
        self.losses.lost[tally] += delta["lost"]
        if not delta["count"]:
            return None
        window = cpus["window"].max()
        return {
            "timestamp_ns": now_ns,
            "cgroup_id": cgroup,
            "family": family,
            "function": function,
            "count": delta["count"],
            "sum_ns": delta["sum_ns"],
            "max_ns": int(cpus["max_ns"][cpus["window"] == window].max()),
            "histogram": (histogram - before.histogram if before else histogram).tolist(),
            "bytes": delta["bytes"],
        }

    def read_losses(self, now_ns: int) -> Any:
        """Rows of ``losses`` for the window since the last reading."""
        rows = []
        for tally in sorted({*self.losses.seen, *self.losses.stored}):
            family, cgroup = tally
            row = {
                name: getattr(self.losses, name)[tally] - getattr(self._told, name)[tally]
                for name in ("seen", "stored", "shed", "lost")
            }
            queued = self.losses.queued(tally) - self._told.queued(tally)
            if not any(row.values()) and not queued:
                continue
            reason = "ring full" if row["lost"] else "over its share" if row["shed"] else None
            rows.append(
                {"timestamp_ns": now_ns, "family": family, "cgroup_id": cgroup, **row,
                 "queued": queued, "reason": reason}
            )  # fmt: skip
        for name in ("seen", "stored", "shed", "lost"):
            setattr(self._told, name, getattr(self.losses, name).copy())
        return pa.Table.from_pylist(rows, schema=_LOSS_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    sums: dict[str, int]
    histogram: npt.NDArray[np.int64]


_SCHEMA: Final = pa.schema(
    [
        ("timestamp_ns", pa.int64()),
        ("cgroup_id", pa.int64()),
        ("family", pa.string()),
        ("function", pa.string()),
        ("count", pa.int64()),
        ("sum_ns", pa.int64()),
        ("max_ns", pa.int64()),
        ("histogram", pa.list_(pa.int64())),
        ("bytes", pa.int64()),
    ]
)

_LOSS_SCHEMA: Final = pa.schema(
    [
        ("timestamp_ns", pa.int64()),
        ("family", pa.string()),
        ("cgroup_id", pa.int64()),
        ("seen", pa.int64()),
        ("stored", pa.int64()),
        ("shed", pa.int64()),
        ("lost", pa.int64()),
        ("queued", pa.int64()),
        ("reason", pa.string()),
    ]
)
