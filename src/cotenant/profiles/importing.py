"""Imports a file of a profiler: reads it, finds what was recorded of it, compares, and stores."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.profiles.matching import MATCHED, Match, match
from cotenant.profiles.nsys_export import MAGIC, NsysExport
from cotenant.profiles.operations import Ints, Operations, ProfileError
from cotenant.profiles.recorded import COUNT, ROWS, Recorded, check_count
from cotenant.profiles.torch_trace import TorchTrace
from cotenant.query.derived.intervals import joined
from cotenant.query.engine.session import Session
from cotenant.store.writer import StoreWriter

SOURCE: Final = "imported"  # In the column of the table.
TABLE: Final = "gpu_timings"
_EVIDENCE: Final = "imported_times"
_SECOND: Final = 1_000_000_000
_WINDOWS_NS: Final = (5 * _SECOND, 600 * _SECOND)  # How far apart clocks may be; then, anything.
_EVER_NS: Final = 1 << 62
_EPOCH_NS: Final = 10**18  # 2001: earlier times are those of a clock without a date.
Opened = Callable[[int | None, int | None], Session]  # With a window from and to.
_TIMES: Final = """
select tenant, node, gpu, kernel_name, size, time_ns, low_ns, high_ns
from operation_times
where source not in ('none', 'imported')
"""
_SEEN: Final = """
select tenant, node, gpu, sum(weight)::double as operations
from gpu_work
group by all
order by all
"""
_USES: Final = """
select tenant, node, gpu, gpu_time_ns, gpu_time_ci_low_ns, gpu_time_ci_high_ns
from gpu_use
"""
_NEARLY: Final = 0.99
_QUANTILES: Final = {"low_ns": 0.1, "time_ns": 0.3, "high_ns": 0.6}


@dataclass(frozen=True, slots=True)
class Profile:
    """A file, and what of it was recorded."""

    path: str
    program: str
    operations: Operations
    recorded: Recorded
    matches: list[Match]

    @property
    def matched(self) -> int:
        """How many operations have a row."""
        return sum(one.matched for one in self.matches)

    @property
    def fresh(self) -> int:
        """How many of these have no imported time yet."""
        return sum(len(places) for _, places in self._fresh())

    def _fresh(self) -> list[tuple[Match, Ints]]:
        imported = self.recorded.rows["imported"].to_numpy(zero_copy_only=False)
        found = []
        for one in self.matches:
            places = np.flatnonzero(one.rows >= 0)
            found.append((one, places[~imported[one.rows[places]]]))
        return found

    def stored(self, root: Path) -> None:
        """Write the measured times into the store, node by node."""
        now_ns = time.time_ns()
        for node in sorted({one.process.node for one in self.matches}):
            with StoreWriter(root, node=node, boot_id=SOURCE) as writer:
                for one, places in self._fresh():
                    if one.process.node == node and len(places):
                        writer.append(TABLE, self._rows(one, places, now_ns))
                        writer.append(_EVIDENCE, self._evidence(one, places))
                        writer.seal(now_ns)

    def _rows(self, one: Match, places: Ints, now_ns: int) -> Any:
        columns = ["timestamp_ns", "pid", "tid", "cgroup_id"]
        rows = self.recorded.rows.select(columns).take(one.rows[places])
        count = len(places)
        more = {
            "gpu_ns": self.operations.gpu_ns[one.operations[places]],
            "asked_ns": np.full(count, now_ns),
            "source": pa.array([SOURCE] * count),
        }
        for name, values in more.items():
            rows = rows.append_column(name, pa.array(values))
        return rows.sort_by("timestamp_ns")

    def _evidence(self, one: Match, places: Ints) -> Any:
        """Per kind of operation, what a neighbour hardly moves: low quantiles."""
        keys = ["cgroup_id", "gpu", "kernel_name", "size"]
        rows = self.recorded.rows.select([*keys, "timestamp_ns"]).take(one.rows[places])
        gpu_ns = pa.array(self.operations.gpu_ns[one.operations[places]].astype(np.float64))
        grouped = (
            rows.append_column("gpu_ns", gpu_ns)
            .group_by(keys)
            .aggregate([("timestamp_ns", "min"), ("gpu_ns", "list")])
        )
        times = [np.array(values) for values in grouped["gpu_ns_list"].to_pylist()]
        found = grouped.select(keys).append_column("timestamp_ns", grouped["timestamp_ns_min"])
        found = found.append_column("samples", pa.array([len(each) for each in times]))
        for name, part in _QUANTILES.items():
            found = found.append_column(name, pa.array([np.quantile(t, part) for t in times]))
        return found

    def pairs(self) -> Any:
        """Each matched operation: what was recorded, and ``measured_ns``."""
        names = ["tenant", "node", "gpu", "kernel_name", "size"]
        parts = []
        for one in self.matches:
            places = np.flatnonzero(one.rows >= 0)
            rows = self.recorded.rows.select(names).take(one.rows[places])
            measured = self.operations.gpu_ns[one.operations[places]]
            parts.append(rows.append_column("measured_ns", pa.array(measured)))
        return pa.concat_tables(parts)


def read(path: Path) -> tuple[str, Operations]:
    """The program that wrote the file, and the operations."""
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
        if head == MAGIC:
            return "nsys", NsysExport(path).read()
        return "PyTorch", TorchTrace(path).read()
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror or error}") from error


def found(path: Path, opened: Opened) -> Profile:
    """Read a file and match it; ProfileError if nothing like it was recorded."""
    program, operations = read(path)
    best: Profile | None = None
    for window_ns in _windows(operations):
        with opened(*_around(operations, window_ns)) as session:
            check_count(session.ask(COUNT).rows()[0]["rows"])
            rows = session.ask(ROWS, rows=1 << 40).table
        recorded = Recorded.of(rows, operations.names)
        best = Profile(
            str(path), program, operations, recorded, match(operations, recorded, window_ns)
        )
        if best.matched >= MATCHED * len(operations):
            break
    if best is None or best.matched < MATCHED * len(operations):
        raise ProfileError(
            f"{path} is of a program that was not recorded then: no process of the store "
            f"queued the same {len(operations):,} operations; is this its host's store?"
        )
    for one in best.matches:
        if one.ambiguous:
            raise ProfileError(
                f"{path} fits several processes as well as {one.process.pid} of "
                f"{one.process.node}; name the --tenant or --node that was profiled"
            )
    return best


def _windows(operations: Operations) -> tuple[int, ...]:
    dated = int(operations.called[0]) > _EPOCH_NS
    return (*_WINDOWS_NS, _EVER_NS) if dated else (_EVER_NS,)


def _around(operations: Operations, window_ns: int) -> tuple[int | None, int | None]:
    if window_ns >= _EVER_NS:
        return None, None
    return int(operations.called[0]) - window_ns, int(operations.called[-1]) + window_ns + 1


@dataclass(frozen=True, slots=True)
class Compared:
    """What a kernel took as measured, and what it would be by our estimate."""

    kernel_name: str
    operations: int
    measured_ns: float
    known: int  # Operations of which the store has an estimate,
    known_ns: float  # what these took,
    estimated_ns: float  # and by the estimate, with its interval.
    low_ns: float
    high_ns: float

    @property
    def error(self) -> float | None:
        """By how much the estimate is off; None without one."""
        return self.estimated_ns / self.known_ns - 1 if self.known_ns > 0 else None


def compared(profile: Profile, session: Session) -> list[Compared]:
    """By kernel, most time first; the last is all of them."""
    times = {
        (row["tenant"], row["node"], row["gpu"], row["kernel_name"], row["size"]): row
        for row in session.ask(_TIMES).rows()
    }
    keys = ["tenant", "node", "gpu", "kernel_name", "size"]
    grouped = profile.pairs().group_by(keys)
    rows = grouped.aggregate([("measured_ns", "sum"), ("measured_ns", "count")]).to_pylist()
    sums: dict[str, list[float]] = {}
    for row in rows:
        count, measured = row["measured_ns_count"], float(row["measured_ns_sum"])
        known = times.get(tuple(row[key] for key in keys))
        values = [count, measured, 0.0, 0.0, 0.0, 0.0, 0.0]
        if known is not None:
            estimates = (known[name] * count for name in ("time_ns", "low_ns", "high_ns"))
            values[2:] = [count, measured, *estimates]
        for name in (row["kernel_name"], ""):
            before = sums.setdefault(name, [0.0] * 7)
            sums[name] = [a + b for a, b in zip(before, values, strict=True)]
    every = sums.pop("")
    kernels = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    return [_compared(name, values) for name, values in (*kernels, ("all", every))]


def _compared(name: str, values: list[float]) -> Compared:
    count, measured, known, known_ns, *estimates = values
    return Compared(name, round(count), measured, round(known), known_ns, *estimates)


@dataclass(frozen=True, slots=True)
class GpuTime:
    """A tenant's time on a GPU: as measured, and as estimated with its interval."""

    tenant: str
    measured_ns: float
    estimated_ns: float
    low_ns: float
    high_ns: float

    @property
    def error(self) -> float:
        """By how much the estimate is off."""
        return self.estimated_ns / self.measured_ns - 1


def gpu_times(profile: Profile, session: Session) -> list[GpuTime]:
    """Of each tenant of which the file has nearly all operations that the session sees."""
    rows = profile.recorded.rows
    seen = session.ask(_SEEN).rows()
    uses = {(row["tenant"], row["node"], row["gpu"]): row for row in session.ask(_USES).rows()}
    parts: dict[tuple[str, str, str | None], list[Ints]] = {}
    for one in profile.matches:
        places = np.flatnonzero(one.rows >= 0)
        for gpu in set(rows["gpu"].take(one.rows[places]).to_pylist()):
            here = np.array([g == gpu for g in rows["gpu"].take(one.rows[places]).to_pylist()])
            key = one.process.tenant, one.process.node, gpu
            parts.setdefault(key, []).append(one.operations[places[here]])
    found = []
    for row in seen:
        key = row["tenant"], row["node"], row["gpu"]
        chosen = np.concatenate(parts.get(key, [np.zeros(0, np.int64)]))
        use = uses.get(key)
        if len(chosen) < _NEARLY * row["operations"] or use is None or use["gpu_time_ns"] is None:
            continue
        measured = _union_ns(profile.operations, chosen)
        if measured:
            found.append(
                GpuTime(
                    row["tenant"], measured, use["gpu_time_ns"], use["gpu_time_ci_low_ns"],
                    use["gpu_time_ci_high_ns"],
                )
            )  # fmt: skip
    return found


def _union_ns(operations: Operations, chosen: Ints) -> int:
    began = operations.ran[chosen]
    starts, ends = joined(began, began + operations.gpu_ns[chosen])
    return int((ends - starts).sum())
