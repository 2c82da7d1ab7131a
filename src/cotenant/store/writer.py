"""The one writer of a store: rows are appended, and twice a second sealed into segments.

A seal is all or nothing: every table's rows become visible with one rename of the manifest. If it
fails, the rows stay in memory up to a bound, and the next seal tries again.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from cotenant.errors import NewerStore, StoreError
from cotenant.schema import TABLES, Table
from cotenant.store import directory
from cotenant.store.absence import Absent, with_more
from cotenant.store.adoption import adopt
from cotenant.store.durable import (
    make_directory,
    part_of,
    remove_quietly,
    store_error,
    sync_directory,
    write_part,
)
from cotenant.store.graveyard import GRACE_NS, Grave, graveyard_path, read_graveyard, shown
from cotenant.store.graveyard import write_graveyard as _write_graveyard
from cotenant.store.layout import partition
from cotenant.store.manifest import (
    Machine,
    Manifest,
    Segment,
    check_continuable,
    manifest_path,
    read_manifest,
    schema_id,
    walk,
)
from cotenant.store.manifest import write_manifest as _write_manifest
from cotenant.store.segment import conform, encode, span
from cotenant.store.snapshot import (
    is_page,
    merged_snapshot,
    page_key,
    snapshot_key,
    split_off,
    with_others,
    without_paged,
)

MAX_BUFFERED_BYTES: Final = 64 << 20
_SOME: Final = Machine()


def _table(name: str) -> Table:
    try:
        return TABLES[name]
    except KeyError:
        raise StoreError(f"no table {name}; see cotenant.schema") from None


class StoreWriter:
    """Holds a store for one recorder; safe to append from one thread and seal from another."""

    def __init__(
        self,
        root: Path | str,
        *,
        node: str,
        boot_id: str,
        gid: int | None = None,
        machine: Machine = _SOME,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> None:
        self.root = Path(root)
        self.node = node
        self.boot_id = boot_id
        self._machine = machine
        self._max_bytes = max_buffered_bytes
        self._rows: dict[str, list[Any]] = {}
        self._snapshots: dict[tuple[str, str], Any] = {}
        self._wholes: dict[tuple[str, str], Callable[[], Any] | None] = {}
        self._anew: set[tuple[str, str]] = set()
        self._folders: set[Path] = set()  # Those that were looked at: ours, and no links.
        self._buffered = 0
        self._buffer_lock = threading.Lock()  # Held for moments: appending never waits for a disk.
        self._commit_lock = threading.RLock()
        directory.prepare(self.root, gid)
        self._lock_fd: int | None = directory.lock(self.root, node)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            manifest = read_manifest(manifest_path(self.root, self.node))
        except NewerStore:
            raise
        except StoreError:
            manifest = None  # Damaged: what can be found is worth more than a refusal.
        self._graves = read_graveyard(graveyard_path(self.root, self.node))
        if manifest is None:
            found = adopt(self.root, [s for s in walk(self.root) if s.node == self.node])
            manifest = Manifest(time.time_ns() if found else 1, found)
        check_continuable(self.root, manifest)
        self._machine.check(self.root, self.node, manifest)
        self._whose = self._machine.hash or manifest.machine
        self._manifest = manifest
        named = {segment.path for segment in manifest.segments}
        waiting = {path for grave in self._graves for path in grave.remove}
        directory.remove_leftovers(self.root, self.node, named | waiting)

    def note_adopted(self) -> None:
        """Have the manifest name what was found without it."""
        with self._commit_lock:
            self._commit(list(self.segments), self._manifest.next)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What is current."""
        return self._manifest.segments

    @property
    def buffered_bytes(self) -> int:
        """Memory held by rows that are not sealed yet."""
        return self._buffered

    def append(self, table_name: str, rows: Any) -> None:
        """Add rows to the next seal; StoreError, and none added, if too many wait already."""
        rows = conform(_table(table_name), rows)
        if not rows.num_rows:
            return
        with self._buffer_lock:
            if self._buffered + rows.nbytes > self._max_bytes:
                raise StoreError(
                    f"dropped {rows.num_rows} rows of {table_name}: {self._buffered >> 20} MiB "
                    f"are waiting to be written to {self.root}; is its disk full or slow?"
                )
            self._rows.setdefault(table_name, []).append(rows)
            self._buffered += rows.nbytes

    def replace(
        self,
        table_name: str,
        rows: Any,
        *,
        key: str | None = None,
        whole: Callable[[], Any] | None = None,
        anew: bool = False,
    ) -> None:
        """Set some rows of a snapshot table, for this boot or for the recording that they name.

        ``whole`` gives all rows, for when those that were written before cannot be read. ``anew``:
        in a file of its own, so that it is seen only together with all else of the same seal.
        """
        table = _table(table_name)
        if not table.snapshot:
            raise StoreError(f"{table_name} is append-only; call append()")
        rows = conform(table, rows)
        whose = table_name, key or snapshot_key(rows, self.boot_id)
        with self._buffer_lock:
            waiting = self._snapshots.get(whose)
            self._snapshots[whose] = rows if waiting is None else with_others(waiting, rows)
            self._wholes[whose] = whole
            if anew:
                self._anew.add(whose)

    def seal(self, now_ns: int) -> dict[str, int]:
        """Make everything appended so far visible; how many rows of each table that was."""
        with self._commit_lock:
            with self._buffer_lock:
                rows, self._rows = self._rows, {}
                snapshots, self._snapshots = self._snapshots, {}
                taken, self._buffered = self._buffered, 0
            try:
                return self._seal(rows, snapshots, now_ns)
            except (OSError, StoreError) as error:
                self._put_back(rows, snapshots, taken)
                if isinstance(error, StoreError):
                    raise
                raise store_error("write to", self.root, error) from error

    def _put_back(self, rows: dict[str, Any], snapshots: dict[Any, Any], taken: int) -> None:
        with self._buffer_lock:
            for name, batches in rows.items():
                self._rows[name] = batches + self._rows.get(name, [])
            for whose, rows_before in snapshots.items():
                later = self._snapshots.get(whose)
                self._snapshots[whose] = (
                    rows_before if later is None else with_others(rows_before, later)
                )
            self._buffered += taken

    def _seal(self, rows: dict[str, Any], snapshots: dict[Any, Any], now_ns: int) -> dict[str, int]:
        if not rows and not snapshots:
            return {}
        number = self._manifest.next
        fresh: list[Segment] = []
        try:
            for name, batches in rows.items():
                whole = pa.concat_tables(batches)
                fresh.append(self._write(name, whole, now_ns, number + len(fresh)))
            for (name, key), whole in snapshots.items():
                for path, page, whose in self._pages(name, key, whole, now_ns, number + len(fresh)):
                    fresh.append(self._write_snapshot(name, path, page, whose))
            self._reveal(fresh)
        except (OSError, StoreError):
            named = {segment.path for segment in self.segments}
            remove_quietly(part_of(self.root / segment.path) for segment in fresh)
            remove_quietly(self.root / s.path for s in fresh if s.path not in named)
            raise
        sealed = {segment.table: 0 for segment in fresh}
        for segment in fresh:
            sealed[segment.table] += segment.rows
        return sealed

    def _write(self, name: str, rows: Any, now_ns: int, number: int) -> Segment:
        first, last = span(rows)
        folder = partition(name, node=self.node, now_ns=now_ns)
        path = f"{folder}/{now_ns if first is None else first}-{number}.parquet"
        content = encode(TABLES[name], rows)
        self._write_part(path, content)
        schema = schema_id(TABLES[name])
        return Segment(name, path, rows.num_rows, first, last, len(content), schema)

    def _pages(
        self, name: str, key: str, rows: Any, now_ns: int, number: int
    ) -> list[tuple[str, Any, str]]:
        """The files that a snapshot's rows make it write: path, rows and whose they are."""
        own = [s for s in self.segments if s.table == name]
        rows = without_paged(rows, (self.root / s.path for s in own if is_page(s, key)))
        before = next((s for s in own if s.key == key), None)
        if before is not None:
            merged = merged_snapshot(TABLES[name], self.root / before.path, rows)
            whole = self._wholes.get((name, key))
            if merged is None and whole is not None:
                merged = with_others(conform(TABLES[name], whole()), rows)
            rows = rows if merged is None else merged
        folder = partition(name, node=self.node, now_ns=now_ns)
        paths = [f"{folder}/{now_ns}-{number + more}.parquet" for more in range(2)]
        gone, rest = split_off(rows, now_ns)
        if gone is None:
            stays = before is not None and (name, key) not in self._anew
            return [(before.path if before and stays else paths[0], rest, key)]
        # The rest under a new name too, so that no reader meets it without the page.
        return [(paths[0], gone, page_key(key, number)), (paths[1], rest, key)]

    def _write_snapshot(self, name: str, path: str, rows: Any, key: str) -> Segment:
        content = encode(TABLES[name], rows)
        self._write_part(path, content)
        schema = schema_id(TABLES[name])
        return Segment(name, path, rows.num_rows, None, None, len(content), schema, key=key)

    def _write_part(self, path: str, content: memoryview) -> None:
        file = self.root / path
        if file.parent not in self._folders or not file.parent.is_dir():
            for folder in (file.parents[2], file.parents[1], file.parents[0]):
                make_directory(folder)
            self._folders.add(file.parent)
        try:
            write_part(file, content)
        except OSError:
            remove_quietly((part_of(file),))
            raise

    def _reveal(self, fresh: list[Segment]) -> None:
        for segment in fresh:
            file = self.root / segment.path
            part_of(file).rename(file)
        for folder in {segment.partition for segment in fresh}:
            sync_directory(self.root / folder)
        again = {segment.path for segment in fresh}
        renewed = {(segment.table, segment.key) for segment in fresh if segment.key}
        kept = [s for s in self.segments if (s.table, s.key) not in renewed]
        gone = [s.path for s in self.segments if (s.table, s.key) in renewed]
        self._commit([*kept, *fresh], self._manifest.next + len(fresh))
        remove_quietly(self.root / path for path in gone if path not in again)

    def _commit(self, segments: list[Segment], number: int, absent: Absent | None = None) -> None:
        absent = self._manifest.absent if absent is None else absent
        manifest = Manifest(number, tuple(segments), machine=self._whose, absent=absent)
        _write_manifest(manifest_path(self.root, self.node), manifest)
        self._manifest = manifest

    def take_number(self) -> int:
        """A number for a segment that is written outside a seal."""
        with self._commit_lock:
            number = self._manifest.next
            self._manifest = replace(self._manifest, next=number + 1)
            return number

    def supersede(self, old: list[Segment], merged: Segment | None, now_ns: int) -> None:
        """Let a hidden merged segment, or nothing, stand for the old ones, which stay a while."""
        with self._commit_lock:
            gone = {segment.path for segment in old}
            show = merged.path if merged else None
            self._bury([*self._graves, Grave(now_ns + GRACE_NS, tuple(sorted(gone)), show)])
            kept = [segment for segment in self.segments if segment.path not in gone]
            timed = [] if merged else [(s.table, s.max_ns) for s in old if s.max_ns is not None]
            absent = with_more(self._manifest.absent, ((t, ((0, ns + 1),)) for t, ns in timed))
            try:
                self._commit([*kept, *([merged] if merged else [])], self._manifest.next, absent)
            except OSError as error:
                raise store_error("write to", self.root, error) from error

    def bury(self, now_ns: int) -> bool:
        """Remove what has been kept long enough; whether there was any."""
        with self._commit_lock:
            due = [grave for grave in self._graves if grave.due_ns <= now_ns]
            if not due:
                return False
            later = [grave for grave in self._graves if grave.due_ns > now_ns]
            hidden = [self._show(grave.show) for grave in due if grave.show]
            kept = tuple(path for path in hidden if path)
            named = {segment.path for segment in self.segments}
            if kept:
                later.append(Grave(now_ns + GRACE_NS, kept))
            gone = {path for grave in due for path in grave.remove} - named
            self._bury(later)
            remove_quietly(self.root / path for path in gone)
            return True

    def _show(self, path: str) -> str | None:
        """Give a hidden segment its visible name; the hidden one, if a query may be reading it."""
        segment = next((s for s in self.segments if s.path == path), None)
        if segment is None:
            remove_quietly((self.root / path,))
            return None
        visible = replace(segment, path=shown(path))
        try:
            remove_quietly((self.root / visible.path,))
            os.link(self.root / path, self.root / visible.path)
            sync_directory(self.root / visible.partition)
            self._commit(
                [visible if s is segment else s for s in self.segments], self._manifest.next
            )
        except OSError as error:
            raise store_error("rename", self.root / path, error) from error
        return path

    def _bury(self, graves: list[Grave]) -> None:
        path = graveyard_path(self.root, self.node)
        try:
            _write_graveyard(path, graves)
        except OSError as error:
            raise store_error("write", path, error) from error
        self._graves = graves

    def close(self) -> None:
        """Let go of the store; rows that were not sealed are gone."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
