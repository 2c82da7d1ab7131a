"""Folds seconds into minutes, and minutes into hours, as they age (``schema/folding.py``).

Segments of the finer table are replaced by one of the coarser in a single change of the manifest.
Rows of one minute that were in two batches make two rows, which add up like those of a second do.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema.folding import FOLDS, TIME, Fold
from cotenant.store.graveyard import is_hidden
from cotenant.store.list_columns import gathered, spread
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import check_plain
from cotenant.store.rewriting import Rewriter, Rewritten, Unreadable, fitting
from cotenant.store.samples import timed
from cotenant.store.segment import conform, span, write_rows, writer
from cotenant.store.writer import StoreWriter

_ROWS: Final = 1 << 15  # At a time: a list takes more room once it is spread out.


def folded(fold: Fold, rows: Any) -> Any:
    """Rows of the finer table, or of the coarser, as rows of the coarser."""
    rows = timed(fold, rows) if fold.sampled else _aligned(fold, rows)
    places = {}
    for name in fold.lists:
        rows, places[name] = spread(rows, name)
    sums = [*fold.sums, *(place for each in places.values() for place in each)]
    values = [(name, "sum") for name in sums] + [(name, "max") for name in fold.largest]
    found = rows.group_by([TIME, *fold.keys], use_threads=False).aggregate(values)
    names = {f"{name}_{how}": name for name, how in values}
    found = found.rename_columns([names.get(name, name) for name in found.column_names])
    for name, each in places.items():
        found = gathered(found, name, each)
    return found.select([column.name for column in fold.coarser.columns])


def folded_together(fold: Fold, pieces: Iterable[Any]) -> Any:
    """The same of rows that come in pieces, of either table: memory is bounded by a piece."""
    parts = [
        folded(fold, rows.slice(start, _ROWS))
        for rows in pieces
        for start in range(0, max(rows.num_rows, 1), _ROWS)
    ]
    # Folded again: several pieces have rows of the same minutes.
    return folded(fold, pa.concat_tables(parts))


def _aligned(fold: Fold, rows: Any) -> Any:
    """The rows, each at the start of the minute or hour that it becomes part of."""
    times = rows.column(TIME)
    late = pc.subtract(times, pc.multiply(pc.divide(times, fold.length_ns), fold.length_ns))
    return rows.set_column(0, TIME, pc.subtract(times, late))


def due(fold: Fold, segments: tuple[Segment, ...], now_ns: int, without: set[str]) -> list[Segment]:
    """The segments of which every row is old enough, oldest first."""
    until = (now_ns - fold.after_ns) // fold.batch_ns * fold.batch_ns
    own = [s for s in segments if s.table == fold.finer.name and s.path not in without]
    # Until it has its visible name, a merged segment waits for the end of others.
    old = [s for s in own if s.max_ns is not None and s.max_ns < until and not is_hidden(s.path)]
    old.sort(key=lambda s: (s.min_ns or 0, s.path))
    return fitting(old)


class Folding:
    """Folds step by step, one batch of one table at a time, and rests as merging does."""

    def __init__(self, store: StoreWriter, *, share: float = 0.05) -> None:
        self._store = store
        self._share = share
        self._rest_until = 0.0
        self._rewriter = Rewriter(store, "fold")

    def step(self, now_ns: int) -> bool:
        """Fold what is old enough of one table, if it is time; whether there was any."""
        if time.monotonic() < self._rest_until:
            return False
        for fold in FOLDS:
            old = due(fold, self._store.segments, now_ns, self._rewriter.unreadable)
            if old:
                began = time.thread_time()
                self._fold(fold, old, now_ns)
                spent = time.thread_time() - began
                self._rest_until = time.monotonic() + spent / self._share
                return True
        return False

    def _fold(self, fold: Fold, old: list[Segment], now_ns: int) -> None:
        def write(part: Path) -> Rewritten:
            rows = folded_together(fold, self._row_groups(fold, old)).sort_by(TIME)
            with writer(fold.coarser, str(part)) as parquet:
                write_rows(parquet, fold.coarser, conform(fold.coarser, rows))
            return Rewritten(rows.num_rows, *span(rows))

        self._rewriter.rewrite(old, fold.coarser, write, level=0, now_ns=now_ns)

    def _row_groups(self, fold: Fold, old: list[Segment]) -> Iterator[Any]:
        """All rows, at most so many at a time as one row group has."""
        for segment in old:
            path = self._store.root / segment.path
            try:
                check_plain(path)
                file = pq.ParquetFile(path)
                for group in range(file.num_row_groups):
                    yield _plain(conform(fold.finer, file.read_row_group(group)))
            except (OSError, pa.ArrowInvalid, StoreError) as error:
                raise Unreadable(segment, error) from error


def _plain(rows: Any) -> Any:
    """Strings without dictionaries: groups are made of what they say."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))
