"""Rows as an object of a far store: compressed whole, and the same bytes for the same rows."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from cotenant.remote.shipped import in_order
from cotenant.schema import TABLES
from cotenant.store.layout import partition
from cotenant.store.manifest import Segment, schema_id
from cotenant.store.segment import ROW_GROUP, conform, span, write_rows, writer
from cotenant.store.snapshot import written_at

_IN_MEMORY: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class FarObject:
    """An object that is made, and its line in the manifest."""

    segment: Segment
    content: BinaryIO


def pack(table: str, path: str, slices: Iterable[Any]) -> FarObject | None:
    """The rows as an object; None where there are none."""
    content = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
    rows, times = 0, []
    with writer(TABLES[table], content) as parquet:
        for piece in _row_groups(slices):
            write_rows(parquet, TABLES[table], conform(TABLES[table], in_order(piece)))
            rows += piece.num_rows
            times += [time for time in span(piece) if time is not None]
    size = content.tell()
    if not rows:
        content.close()
        return None
    first, last = min(times, default=None), max(times, default=None)
    schema = schema_id(TABLES[table])
    segment = Segment(table, path, rows, first, last, size, schema)
    return FarObject(segment, cast(BinaryIO, content))


def _row_groups(slices: Iterable[Any]) -> Iterator[Any]:
    """The rows, so many at a time as are worth a row group of their own."""
    waiting: list[Any] = []
    for piece in slices:
        waiting.append(piece)
        if sum(part.num_rows for part in waiting) >= ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if any(part.num_rows for part in waiting):
        yield pa.concat_tables(waiting)


def pack_snapshot(near: Segment, rows: Any) -> FarObject | None:
    """A snapshot as an object, named by its content."""
    packed = pack(near.table, near.path, [rows])
    if packed is None:
        return None
    packed.content.seek(0)
    digest = hashlib.file_digest(packed.content, lambda: hashlib.blake2b(digest_size=7))  # type: ignore[arg-type]
    number = int.from_bytes(digest.digest(), "big")
    began_ns = written_at(near)[0]
    folder = partition(near.table, node=near.node, now_ns=began_ns)
    path = f"{folder}/{began_ns}-{number}.parquet"
    return FarObject(replace(packed.segment, path=path, key=near.key), packed.content)
