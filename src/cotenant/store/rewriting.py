"""Lets one new segment stand for old ones, of the same table or of another: wholly or not at all.

The new file is hidden until the old ones are removed; the manifest is replaced once, and from then
on names the one instead of the others. Whenever this is cut short, readers find either.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cotenant.errors import StoreError
from cotenant.schema import Table
from cotenant.store.durable import (
    make_directory,
    open_part,
    open_to_group,
    part_of,
    remove_quietly,
    store_error,
    sync_directory,
)
from cotenant.store.graveyard import hidden
from cotenant.store.manifest import Segment, schema_id
from cotenant.store.writer import StoreWriter

_MOST_BYTES: Final = 64 << 20


def fitting(segments: Sequence[Segment]) -> list[Segment]:
    """The first of them, as many as may be rewritten at once."""
    size = 0
    chosen: list[Segment] = []
    for segment in segments:
        size += segment.bytes
        if chosen and size > _MOST_BYTES:
            break
        chosen.append(segment)
    return chosen


class Unreadable(Exception):
    """A segment that cannot be read, and so not rewritten with others."""

    def __init__(self, segment: Segment, why: Exception) -> None:
        super().__init__(str(why))
        self.segment = segment


class Rewritten(NamedTuple):
    """What was written: how many rows, and the time that they span."""

    rows: int
    min_ns: int | None
    max_ns: int | None


class Rewriter:
    """Rewrites segments of a store; remembers those that it could not read."""

    def __init__(self, store: StoreWriter, doing: str) -> None:
        self._store = store
        self._doing = doing
        self.unreadable: set[str] = set()

    def rewrite(
        self,
        old: Sequence[Segment],
        table: Table,
        write: Callable[[Path], Rewritten],
        *,
        level: int,
        now_ns: int,
    ) -> None:
        """Have ``write`` fill a file of this table, which then stands for the old segments."""
        root = self._store.root
        path = self._path(old[0], table)
        file = root / path
        part = part_of(file)
        try:
            for folder in (file.parents[2], file.parents[1], file.parents[0]):
                make_directory(folder)
            os.close(open_part(file))
            rows, first, last = write(part)
            _publish(part, file)
        except Unreadable as error:
            remove_quietly((part,))
            # The others are rewritten without it next time.
            self.unreadable.add(error.segment.path)
            what = f"cannot {self._doing} {root / error.segment.path}: {error}; its segments stay"
            raise StoreError(what) from error
        except OSError as error:
            remove_quietly((part,))
            raise store_error(f"{self._doing} segments in", file.parent, error) from error
        size, schema = file.stat().st_size, schema_id(table)
        new = Segment(table.name, path, rows, first, last, size, schema, level=level)
        self._store.supersede(list(old), new, now_ns)

    def _path(self, first: Segment, table: Table) -> str:
        """Beside the first of the old ones, or where that would be in the other table."""
        start = first.path.rpartition("/")[2].partition("-")[0]
        folder = f"{table.name}/{first.partition.partition('/')[2]}"
        return hidden(f"{folder}/{start}-{self._store.take_number()}.parquet")


def _publish(part: Path, file: Path) -> None:
    with part.open("rb+") as content:
        open_to_group(content.fileno())
        os.fsync(content.fileno())
    part.rename(file)
    sync_directory(file.parent)
