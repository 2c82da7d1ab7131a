"""Sums per tenant, operation, name and second: they answer for rows that are gone."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.schema.dimensions import ROLLUPS
from cotenant.schema.families import FAMILIES
from cotenant.store.segment import columns_of

_SECOND: Final = 1_000_000_000
_LAUNCHES: Final = frozenset({"launch", "graph_launch"})
_LATE_NS: Final = 2 * _SECOND  # A second takes rows until this long after its end.
# The column that names what an event is about, for families where it has few values.
_NAMES: Final = {
    name: family.rollup_name for name, family in FAMILIES.items() if family.rollup_name
}


class Cell(NamedTuple):
    """The key of one row of ``rollups``."""

    second: int
    cgroup_id: int
    family: str
    op: str
    name: str | None


@dataclass(slots=True)
class Sums:
    """Sums over the events of a cell."""

    events: int = 0
    sum_ns: int = 0
    max_ns: int = 0
    bytes: int = 0

    def add(self, other: "Sums") -> None:
        """Add another sum to this one."""
        self.events += other.events
        self.sum_ns += other.sum_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.bytes += other.bytes


def _float(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return values.astype(np.float64)


class Rollups:
    """Adds rows up until their second is over."""

    table: Final = "rollups"

    def __init__(self) -> None:
        self._finished = False
        self._cells: dict[Cell, Sums] = {}

    def add(self, family: str, batch: Batch, rows: Any) -> None:
        """A batch, and the rows that were made of it."""
        groups = _grouped(family, batch, rows)
        # Any row of a group tells what all rows of it are about.
        example = np.zeros(len(groups.counts), np.int64)
        example[groups.codes] = np.arange(batch.rows)
        failed = _failed_launches(rows.take(pa.array(example)))
        chosen = rows.select(_columns(family)).take(pa.array(example))
        about = list(zip(*(_values(chosen.column(n)) for n in _columns(family)), strict=True))
        seconds, which, parts = _by_second(rows.column("timestamp_ns").to_numpy(), groups)
        sums = (values.tolist() for values in _summed(batch, parts))
        for second, group, events, sum_ns, max_ns, size in zip(
            seconds.tolist(), which.tolist(), *sums, strict=True
        ):
            cgroup_id, op, *name = about[group]
            if failed[group]:
                continue
            cell = Cell(second, cgroup_id, family, op, name[0] if name else None)
            self.include(cell, Sums(int(events), int(sum_ns), max_ns, int(size)))

    def include(self, cell: Cell, sums: Sums) -> None:
        """Events that are in the weight of no row of a batch."""
        self._cells.setdefault(cell, Sums()).add(sums)

    def finish(self) -> None:
        """No more rows come: every second is over."""
        self._finished = True

    def sample(self, now_ns: int) -> Any | None:
        """Rows for the seconds that are over; None if there are none."""
        until = now_ns - _LATE_NS
        over = [c for c in self._cells if self._finished or (c.second + 1) * _SECOND <= until]
        if not over:
            return None
        rows = [(cell, self._cells.pop(cell)) for cell in over]
        return columns_of(
            ROLLUPS,
            {
                "timestamp_ns": [cell.second * _SECOND for cell, _ in rows],
                "cgroup_id": [cell.cgroup_id for cell, _ in rows],
                "family": [cell.family for cell, _ in rows],
                "op": [cell.op for cell, _ in rows],
                "name": [cell.name for cell, _ in rows],
                "count": [sums.events for _, sums in rows],
                "sum_ns": [sums.sum_ns for _, sums in rows],
                "max_ns": [sums.max_ns for _, sums in rows],
                "bytes": [sums.bytes for _, sums in rows],
            },
        )


def _failed_launches(rows: Any) -> list[bool]:
    """Launches that nothing came of: kernels are counted by those that ran."""
    if "result" not in rows.column_names:
        return [False] * rows.num_rows
    ops, results = rows.column("op").to_pylist(), rows.column("result").to_pylist()
    return [op in _LAUNCHES and bool(result) for op, result in zip(ops, results, strict=True)]


def _columns(family: str) -> list[str]:
    names = [_NAMES[family]] if family in _NAMES else []
    return ["cgroup_id", "op", *names]


class _Groups(NamedTuple):
    """Rows that are summed up together."""

    codes: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]


def _grouped(family: str, batch: Batch, rows: Any) -> _Groups:
    """Rows by signature; if a handle was renamed meanwhile, by name."""
    groups = _Groups(batch.codes, batch.counts)
    if family not in _NAMES:
        return groups
    names = rows.column(_NAMES[family]).combine_chunks().dictionary_encode()
    places = names.indices.fill_null(len(names.dictionary)).to_numpy()
    of_signature = np.zeros(batch.signatures, places.dtype)
    of_signature[batch.codes] = places
    if (of_signature[batch.codes] == places).all():
        return groups
    pairs = batch.codes * np.int64(len(names.dictionary) + 1) + places
    _, codes, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return _Groups(codes, counts)


def _by_second(
    times: npt.NDArray[np.int64], groups: _Groups
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _Groups]:
    """The groups parted by second: of which second and group each part is, and the parts.

    Seconds may be many and far apart: calls that return together may have begun on any day.
    """
    seconds = pa.array(times // _SECOND).dictionary_encode()
    during, size = seconds.dictionary.to_numpy(), len(groups.counts)
    if len(during) == 1:
        return np.repeat(during, size), np.arange(size), groups
    pairs = pa.array(seconds.indices.to_numpy() * np.int64(size) + groups.codes).dictionary_encode()
    there, codes = pairs.dictionary.to_numpy(), pairs.indices.to_numpy()
    return during[there // size], there % size, _Groups(codes, np.bincount(codes))


def _values(column: Any) -> list[Any]:
    """The values one by one, each text once."""
    if pa.types.is_integer(column.type):
        values: list[Any] = column.to_numpy().tolist()
        return values
    encoded = column.combine_chunks().dictionary_encode()
    words = [*encoded.dictionary.to_pylist(), None]
    return [words[at] for at in encoded.indices.fill_null(-1).to_numpy().tolist()]


def _summed(batch: Batch, groups: _Groups) -> list[npt.NDArray[Any]]:
    """Events, sum and maximum of nanoseconds, and bytes, by group."""
    size, codes = len(groups.counts), groups.codes
    weights = _float(batch.plain("weight"))
    sums: list[npt.NDArray[Any]] = [np.bincount(codes, weights, size)]
    most = np.zeros(size, np.uint64)
    for name in ("duration_ns", "bytes"):
        values = batch.varying(name)
        if values is None:
            sums.append(np.zeros(size))
            continue
        sums.append(np.bincount(codes, _float(values) * weights, size))
        if name == "duration_ns":
            np.maximum.at(most, codes, values)
    events, sum_ns, moved = sums
    return [events, sum_ns, most, moved]
