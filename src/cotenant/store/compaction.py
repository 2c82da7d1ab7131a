"""Merges small segments into bigger ones, in the background and in order of time.

A seal every half second makes small files, and each costs a query something. Files of one level
are merged, ``FILES_MERGED`` at a time, into one of the next; a file that is big enough stays as
it is. Memory is bounded by one row group, and processor time by a share of one core: 5 %, and more
the more files wait.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store.graveyard import is_hidden
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import check_plain
from cotenant.store.rewriting import Rewriter, Rewritten, Unreadable, fitting
from cotenant.store.segment import ROW_GROUP, TIME, conform, write_rows, writer
from cotenant.store.writer import StoreWriter

FILES_MERGED: Final = 32
BIG_BYTES: Final = 4 << 20  # Merging such a file gains little,
BIG_ROWS: Final = ROW_GROUP // 2  # and one of which a reader gets its fill.
FEW_WAIT: Final = 256  # For each further 256 files to merge, its share grows by as much again.
TIMES_MOST: Final = 10


def candidates(
    segments: tuple[Segment, ...], today: str, without: Collection[str] = ()
) -> list[Segment]:
    """The segments to merge next, oldest first; empty if there is nothing worth it.

    What a past day has left is merged too, however few files it is. The least work goes first: a
    table of few rows makes as many files as one of many, and must not wait until that is done.
    """
    groups: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in segments:
        # A table that we do not know was written by a later version.
        table = TABLES.get(segment.table)
        small = _is_small(segment) and segment.path not in without
        if small and table is not None and not table.snapshot:
            past = f"/date={today}/" not in segment.path
            groups[segment.partition, -1 if past else segment.level].append(segment)
    due = []
    for (_, level), group in sorted(groups.items()):
        group.sort(key=lambda segment: (segment.min_ns or 0, segment.path))
        chosen = fitting(group[: 16 * FILES_MERGED])
        if len(chosen) >= (2 if level < 0 else FILES_MERGED):
            due.append(chosen)
    return min(due, key=lambda chosen: sum(s.bytes for s in chosen), default=[])


def _is_small(segment: Segment) -> bool:
    return segment.bytes < BIG_BYTES and segment.rows < BIG_ROWS and not is_hidden(segment.path)


def _in_order(waiting: list[Any]) -> Any:
    """The rows of all tables by time; takes them out of the list, to have each column once."""
    rows = pa.concat_tables(waiting)
    waiting.clear()
    times = rows.column(TIME).combine_chunks()
    if pc.all(pc.less_equal(times.slice(0, len(times) - 1), times.slice(1))).as_py() is not False:
        return rows
    order = pc.array_sort_indices(times)
    schema, columns = rows.schema, rows.columns
    del rows
    for place in range(len(columns)):
        columns[place] = columns[place].take(order)
    return pa.Table.from_arrays(columns, schema=schema)


def _read(file: Path, strings: set[str]) -> Any:
    """A segment; one that is older than a column does not have it."""
    there = strings & set(pq.read_schema(file).names)
    return pq.ParquetFile(file, read_dictionary=sorted(there)).read()


def _merge(root: Path, old: list[Segment], sink: Path) -> int:
    """Write the rows of all into one file, a row group at a time; how many they are."""
    table = TABLES[old[0].table]
    strings = {column.name for column in table.columns if column.type == "string"}
    waiting: list[Any] = []
    merged = count = 0
    with writer(table, str(sink)) as parquet:
        for segment in old:
            if waiting and count + segment.rows > ROW_GROUP:
                write_rows(parquet, table, _in_order(waiting))
                merged, count = merged + count, 0
            try:
                check_plain(root / segment.path)
                waiting.append(conform(table, _read(root / segment.path, strings)))
            except (OSError, pa.ArrowInvalid, StoreError) as error:
                raise Unreadable(segment, error) from error
            count += waiting[-1].num_rows
        if waiting:
            write_rows(parquet, table, _in_order(waiting))
    return merged + count


class Compactor:
    """Merges step by step; each step is short, and rests in proportion to what it took."""

    def __init__(self, store: StoreWriter, *, share: float = 0.05) -> None:
        self._store = store
        self._share = share
        self._rest_until = 0.0
        self._rewriter = Rewriter(store, "merge")
        self._lock = threading.Lock()

    @property
    def rest_s(self) -> float:
        """How long it rests from now on."""
        return max(0.0, self._rest_until - time.monotonic())

    def step(self, now_ns: int) -> bool:
        """Do one piece of work, if there is any and it is time; whether something was done."""
        with self._lock:
            if time.monotonic() < self._rest_until:
                return False
            buried = self._store.bury(now_ns)
            today = time.strftime("%Y-%m-%d", time.gmtime(now_ns // 1_000_000_000))
            old = candidates(self._store.segments, today, self._rewriter.unreadable)
            if not old:
                return buried
            began = time.thread_time()
            self._replace(old, now_ns)
            spent = time.thread_time() - began
            self._rest_until = time.monotonic() + spent / self._share_now()
            return True

    def _share_now(self) -> float:
        waiting = sum(_is_small(s) and s.level == 0 for s in self._store.segments)
        return self._share * min(1 + waiting // FEW_WAIT, TIMES_MOST)

    def _replace(self, old: list[Segment], now_ns: int) -> None:
        def write(part: Path) -> Rewritten:
            rows = _merge(self._store.root, old, part)
            first = min((s.min_ns for s in old if s.min_ns is not None), default=None)
            last = max((s.max_ns for s in old if s.max_ns is not None), default=None)
            return Rewritten(rows, first, last)

        level = max(segment.level for segment in old) + 1
        table = TABLES[old[0].table]
        self._rewriter.rewrite(old, table, write, level=level, now_ns=now_ns)
