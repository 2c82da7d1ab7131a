"""Answers for programs: JSON, CSV, Arrow and Parquet, written as the rows come."""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO, Final, Protocol, TextIO

from cotenant.errors import UsageError
from cotenant.printable import printable
from cotenant.query.engine.batches import Batches
from cotenant.views.text import plain

BINARY: Final = ("arrow", "parquet")
FORMATS: Final = ("table", "json", "csv", *BINARY)


class Sink(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object:
        """Add to what was written before."""


class _Screen:
    """A terminal, on which a tenant's names must not move our cursor; lines stay lines."""

    def __init__(self, out: Sink) -> None:
        self._out = out

    def write(self, text: str, /) -> object:
        return self._out.write(printable(text, but="\n\t"))


def unique(names: Iterable[str]) -> list[str]:
    """The names, a repeated one with a number: ``node``, ``node_1``."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        times = seen.get(name, 0)
        seen[name] = times + 1
        found.append(f"{name}_{times}" if times else name)
    return found


def write_json(batches: Batches, out: Sink) -> None:
    """An array of objects, one on each line."""
    names = unique(batches.schema.names)
    before = "["
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            line = json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=False)
            out.write(f"{before}\n{line}")
            before = ","
    out.write("[]\n" if before == "[" else "\n]\n")


def write_csv(batches: Batches, out: Sink) -> None:
    """A header and rows; text is quoted, so that NULL, which is nothing at all, stays apart."""
    out.write(",".join(map(_quoted, unique(batches.schema.names))) + "\n")
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            out.write(",".join(map(_csv_cell, row)) + "\n")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _csv_cell(value: Any) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | dict):
        return _quoted(json.dumps(value, ensure_ascii=False))
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_binary(batches: Batches, out: BinaryIO, kind: str) -> None:
    """An Arrow IPC stream, or a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = unique(batches.schema.names)
    schema = pa.schema(
        field.with_name(name) for field, name in zip(batches.schema, names, strict=True)
    )
    if kind == "arrow":
        with pa.ipc.new_stream(out, schema) as stream:
            for batch in batches:
                stream.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        return
    with pq.ParquetWriter(out, schema, compression="zstd") as file:
        for batch in batches:
            file.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))


def write(batches: Batches, kind: str, out: TextIO) -> None:
    """All rows in one of the formats for programs."""
    if kind in BINARY:
        if out.isatty():
            raise UsageError(f"{kind} is binary, and this is a terminal; add > answer.{kind}")
        write_binary(batches, out.buffer, kind)
        out.flush()
        return
    sink = _Screen(out) if out.isatty() else out
    if kind == "json":
        write_json(batches, sink)
    else:
        write_csv(batches, sink)
    out.flush()
