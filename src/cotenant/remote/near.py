"""A node's rows in the store that its recorder writes, by window."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store.adoption import adopt
from cotenant.store.manifest import (
    Manifest,
    Segment,
    manifest_path,
    read_manifest,
    walk,
)
from cotenant.store.periods import WINDOW_NS, Period, changed_periods
from cotenant.store.plain_file import check_plain, is_plain
from cotenant.store.segment import TIME, arrow_schema

STILL_NS: Final = 60_000_000_000  # A recorder replaces its manifest twice a second.
_SLICE_ROWS: Final = 1 << 19
_SLICES: Final = 10  # Of a window with more rows than that.


class Changed(Exception):
    """A file was merged or let go since the manifest was read."""


@dataclass
class NearNode:
    """One moment of a node's store; what was counted in a segment is kept for the next moment."""

    root: Path
    node: str
    manifest: Manifest = field(default_factory=Manifest)
    _counted: dict[str, Counter[int]] = field(default_factory=dict)

    def refresh(self) -> None:
        """Read the manifest again."""
        manifest = self._named()
        segments = tuple(s for s in manifest.segments if is_plain(self.root / s.path))
        missing = set(manifest.segments).difference(segments)
        # A recorder may have let them go, or replaced them, meanwhile.
        missing = missing.intersection(self._named().segments) if missing else missing
        told = (*manifest.missing, *sorted(missing, key=lambda segment: segment.path))
        self.manifest = replace(manifest, segments=segments, missing=told)
        there = {segment.path for segment in segments}
        self._counted = {path: n for path, n in self._counted.items() if path in there}

    def _named(self) -> Manifest:
        manifest = read_manifest(manifest_path(self.root, self.node))
        if manifest is not None:
            return manifest
        return Manifest(1, adopt(self.root, [s for s in walk(self.root) if self._owns(s)]))

    def _owns(self, segment: Segment) -> bool:
        return segment.node == self.node

    def segments(self, table: str) -> list[Segment]:
        """What is current of a table."""
        return [s for s in self.manifest.segments if s.table == table and s.rows]

    def changed_periods(self, table: str) -> list[Period]:
        """Those whose rows it does not have as they were recorded: it was shipped itself."""
        return changed_periods(s.path for s in self.segments(table))

    def at_rest(self) -> bool:
        """Whether nobody records it now: what is here is all there is."""
        self.refresh()
        try:
            changed_ns = os.stat(manifest_path(self.root, self.node)).st_mtime_ns
        except FileNotFoundError:
            return True
        return time.time_ns() - changed_ns > STILL_NS or self._ended()

    def _ended(self) -> bool:
        try:
            found = [self.content(segment) for segment in self.segments("sessions")]
        except Changed:
            return False  # By a recorder.
        recordings = [row for rows in found for row in rows.to_pylist()]
        newest = max(recordings, key=lambda row: row["started_ns"], default=None)
        return newest is not None and newest["ended_ns"] is not None

    def counts(self, table: str) -> Counter[int]:
        """How many rows begin in each window, by the time at which that starts."""
        total: Counter[int] = Counter()
        for segment in self.segments(table):
            if segment.path not in self._counted:
                self._counted[segment.path] = self._count(segment)
            total.update(self._counted[segment.path])
        return total

    def _count(self, segment: Segment) -> Counter[int]:
        first, last = segment.min_ns, segment.max_ns
        if first is not None and last is not None and first // WINDOW_NS == last // WINDOW_NS:
            return Counter({first // WINDOW_NS * WINDOW_NS: segment.rows})
        found: Counter[int] = Counter()
        with self._opened(segment) as file:
            for batch in file.iter_batches(columns=[TIME]):
                windows, rows = np.unique(
                    batch.column(0).to_numpy() // WINDOW_NS, return_counts=True
                )
                starts = (windows * WINDOW_NS).tolist()
                found.update(dict(zip(starts, rows.tolist(), strict=True)))
        return found

    def slices(self, table: str, window: Period) -> Iterator[Any]:
        """The rows of a window; one with very many comes in pieces, in order of time."""
        many = self.counts(table)[window.start_ns] > _SLICE_ROWS
        step_ns = WINDOW_NS // _SLICES if many else WINDOW_NS
        for start_ns in range(window.start_ns, window.end_ns, step_ns):
            yield self._between(table, start_ns, start_ns + step_ns)

    def _between(self, table: str, start_ns: int, end_ns: int) -> Any:
        parts = [arrow_schema(TABLES[table]).empty_table()]
        for s in self.segments(table):
            if s.min_ns is None or s.max_ns is None or s.min_ns >= end_ns or s.max_ns < start_ns:
                continue
            # Only the row groups that may have such rows are read.
            within = (pc.field(TIME) >= start_ns) & (pc.field(TIME) < end_ns)
            parts.append(self._plain(table, self._filtered(s, within)))
        return pa.concat_tables(parts)

    def _filtered(self, segment: Segment, within: Any) -> Any:
        file = self.root / segment.path
        try:
            check_plain(file)
            # By a file, not a path: one that leads through `date=` would be taken for a column.
            with file.open("rb") as content:
                return pq.read_table(content, filters=within, partitioning=None)
        except FileNotFoundError as error:
            raise Changed(segment.path) from error
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file, error) from error

    def content(self, segment: Segment) -> Any:
        """All rows of a segment, with exactly the columns of today."""
        with self._opened(segment) as file:
            return self._plain(segment.table, file.read())

    @contextmanager
    def _opened(self, segment: Segment) -> Iterator[Any]:
        file = self.root / segment.path
        try:
            check_plain(file)
            with pq.ParquetFile(file) as content:
                yield content
        except FileNotFoundError as error:
            raise Changed(segment.path) from error
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file, error) from error

    @staticmethod
    def _plain(table: str, rows: Any) -> Any:
        """With today's columns; NULL in those that came later, and none that were never ours."""
        schema = arrow_schema(TABLES[table])
        columns = [
            rows.column(f.name).cast(f.type)
            if f.name in rows.column_names
            else pa.nulls(len(rows), f.type)
            for f in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)


def _unreadable(file: Path, error: Exception) -> StoreError:
    why = str(error).splitlines()[0]
    return StoreError(f"cannot read {file}: {why}; restore that file, or move it away")
