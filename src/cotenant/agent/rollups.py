"""Sums per tenant, operation, name and second: they answer for rows that are gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SECOND: Final = 1_000_000_000
_LATE_NS: Final = 2 * _SECOND  # Rows of a second come in until so long after its end.
_CELLS_MAX: Final = 1 << 21
# What an event of a family is about, where there are not too many of it.
_NAMES: Final = {"cuda": "kernel_name", "io": "device"}

Codes = npt.NDArray[np.int64]


class Cell(NamedTuple):
    """What is summed up together."""

    second: int
    cgroup_id: int
    family: str
    op: str
    name: str | None


@dataclass(slots=True)
class Sums:
    """Of the events in a cell."""

    events: int = 0
    sum_ns: int = 0
    max_ns: int = 0
    bytes: int = 0

    def add(self, other: "Sums") -> None:
        """Both together."""
        self.events += other.events
        self.sum_ns += other.sum_ns
        self.max_ns = max(self.max_ns, other.max_ns)
        self.bytes += other.bytes


def _coded(column: Any) -> tuple[Codes, list[Any]]:
    """Each row's number, and the values by number; NULL is a value."""
    values = column.combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes = values.indices.fill_null(len(values.dictionary)).to_numpy()
    return codes.astype(np.int64), [*values.dictionary.to_pylist(), None]


def _numbers(rows: Any, name: str) -> npt.NDArray[np.float64]:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows)
    found: npt.NDArray[np.float64] = rows.column(name).fill_null(0).to_numpy().astype(np.float64)
    return found


class Rollups:
    """Adds rows up until their second is over."""

    def __init__(self) -> None:
        self._cells: dict[Cell, Sums] = {}

    def add(self, family: str, rows: Any) -> None:
        """Rows of an event table."""
        seconds = rows.column("timestamp_ns").to_numpy() // _SECOND
        first = int(seconds.min())
        keys = [(seconds - first, list(range(first, int(seconds.max()) + 1)))]
        keys += [_coded(rows.column(name)) for name in ("cgroup_id", "op")]
        if family in _NAMES:
            keys.append(_coded(rows.column(_NAMES[family])))
        cells = np.zeros(rows.num_rows, np.int64)
        size = 1
        for codes, values in keys:
            size *= len(values)
            cells = cells * len(values) + codes
        if size > _CELLS_MAX:
            distinct, cells = np.unique(cells, return_inverse=True)
        else:
            distinct = np.arange(size)
        for place, sums in _summed(rows, cells, len(distinct)):
            self._put(family, int(distinct[place]), [values for _, values in keys], sums)

    def _put(self, family: str, place: int, values: list[list[Any]], sums: Sums) -> None:
        found = []
        for choice in reversed(values):
            place, code = divmod(place, len(choice))
            found.append(choice[code])
        second, cgroup, op, *name = reversed(found)
        cell = Cell(second, cgroup, family, op, name[0] if name else None)
        self._cells.setdefault(cell, Sums()).add(sums)

    def take(self, now_ns: int) -> Any | None:
        """Rows of ``rollups`` for the seconds that are over; None if there are none."""
        over = [c for c in self._cells if (c.second + 1) * _SECOND <= now_ns - _LATE_NS]
        if not over:
            return None
        rows = [(cell, self._cells.pop(cell)) for cell in over]
        return pa.table(
            {
                "timestamp_ns": pa.array([c.second * _SECOND for c, _ in rows], pa.int64()),
                "cgroup_id": pa.array([c.cgroup_id for c, _ in rows], pa.int64()),
                "family": pa.array([c.family for c, _ in rows], pa.string()),
                "op": pa.array([c.op for c, _ in rows], pa.string()),
                "name": pa.array([c.name for c, _ in rows], pa.string()),
                "count": pa.array([s.events for _, s in rows], pa.int64()),
                "sum_ns": pa.array([s.sum_ns for _, s in rows], pa.int64()),
                "max_ns": pa.array([s.max_ns for _, s in rows], pa.int64()),
                "bytes": pa.array([s.bytes for _, s in rows], pa.int64()),
            }
        )


def _summed(rows: Any, cells: Codes, size: int) -> Iterator[tuple[int, Sums]]:
    """Each cell that has rows, with their sums; a row counts as often as its weight says."""
    weight = _numbers(rows, "weight")
    duration = _numbers(rows, "duration_ns")
    count = np.bincount(cells, weight, size)
    sum_ns = np.bincount(cells, duration * weight, size)
    size_bytes = np.bincount(cells, _numbers(rows, "bytes") * weight, size)
    max_ns = np.zeros(size)
    np.maximum.at(max_ns, cells, duration)
    for place in np.flatnonzero(count).tolist():
        yield (
            place,
            Sums(int(count[place]), int(sum_ns[place]), int(max_ns[place]), int(size_bytes[place])),
        )
