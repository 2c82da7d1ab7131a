"""Answers for programs: JSON, CSV, Arrow and Parquet, written as the rows come."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Final, Protocol, TextIO

from cotenant.errors import UsageError
from cotenant.printable import escaped, escaped_json
from cotenant.views.text import plain

BINARY: Final = ("arrow", "parquet")
RAW: Final = ("csv", "json")  # Formats that have a tenant's text as it is, if asked.
FORMATS: Final = ("table", "json", "csv", *BINARY)
# What a spreadsheet begins to compute at, in the wide forms of East Asia too.
_FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class Batched(Protocol):
    """Rows, one Arrow batch at a time."""

    schema: Any

    def __iter__(self) -> Iterator[Any]: ...


class Sink(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object:
        """Add to what was written before."""


def unique(names: Iterable[str]) -> list[str]:
    """The names, a repeated one with a number: ``node``, ``node_1``."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        times = seen.get(name, 0)
        seen[name] = times + 1
        found.append(f"{name}_{times}" if times else name)
    return found


def write_json(batches: Batched, out: Sink, *, raw: bool = False) -> None:
    """An array of objects, one on each line; what cannot be printed is escaped, unless raw."""
    names = unique(batches.schema.names)
    before = "["
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            line = json.dumps(dict(zip(names, map(plain, row), strict=True)), ensure_ascii=False)
            out.write(f"{before}\n{line if raw else escaped_json(line)}")
            before = ","
    out.write("[]\n" if before == "[" else "\n]\n")


def write_csv(batches: Batched, out: Sink, *, raw: bool = False) -> None:
    """A header and rows; text is quoted, so that NULL, which is nothing at all, stays apart.

    A tenant's text moves no cursor, begins no row, and is no formula to a spreadsheet, unless raw.
    """
    text = _quoted if raw else _harmless
    out.write(",".join(map(text, unique(batches.schema.names))) + "\n")
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            out.write(",".join([_csv_cell(value, text) for value in row]) + "\n")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _harmless(text: str) -> str:
    text = escaped(text)
    if text.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        text = f"'{text}"  # A spreadsheet takes what follows for text, and shows it without this.
    return _quoted(text)


def _csv_cell(value: Any, text: Callable[[str], str]) -> str:
    value = plain(value)
    if value is None:
        return ""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list | dict):
        return text(json.dumps(value, ensure_ascii=False))
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_binary(batches: Batched, out: BinaryIO, kind: str) -> None:
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


def write(batches: Batched, kind: str, out: TextIO, *, raw: bool = False) -> None:
    """All rows in one of the formats for programs."""
    if kind in BINARY:
        if out.isatty():
            raise UsageError(f"{kind} is binary, and this is a terminal; add > answer.{kind}")
        write_binary(batches, out.buffer, kind)
        out.flush()
        return
    if kind == "json":
        write_json(batches, out, raw=raw)
    else:
        write_csv(batches, out, raw=raw)
    out.flush()
