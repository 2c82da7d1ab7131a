"""Segments: the immutable files that rows live in.

A segment holds one table's rows of one span of time. Columns are encoded for what they hold: times
as deltas, durations and lists plainly, everything else by dictionary. A fresh segment compresses
only the first three: for the others starting a compressor costs more than all the rest of writing
them, and a segment that is merged is compressed whole. Only encodings that Parquet readers of 2023
know are used.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema import Column, Table
from cotenant.store.nulls import nulls

ROW_GROUP: Final = 1 << 17  # What one DuckDB thread takes at a time.
TIME: Final = "timestamp_ns"

_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_DURATIONS: Final = frozenset({"duration_ns", "gpu_ns", "queue_ns", "rtt_ns"})
# What a reader can skip a segment by; for the others statistics would cost more than they save.
_SKIP_BY: Final = (TIME, "cgroup_id", "duration_ns")


@cache
def _arrow_type(name: str) -> Any:
    if name == "list<int64>":
        return pa.list_(pa.int64())
    return pa.bool_() if name == "bool" else getattr(pa, name)()


@cache
def arrow_schema(table: Table) -> Any:
    """The table's columns as Arrow fields."""
    return pa.schema(
        pa.field(c.name, _arrow_type(c.type), nullable=c.nullable) for c in table.columns
    )


def rows_of(table: Table, rows: list[dict[str, Any]]) -> Any:
    """Rows that were made one by one, in the table's types.

    Left to guess the types, Arrow looks for pandas on the disk, for each column again.
    """
    return columns_of(table, {c.name: [row.get(c.name) for row in rows] for c in table.columns})


def columns_of(table: Table, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Columns that were made value by value, in the table's types.

    Tenants choose what is added up: a sum that does not fit is the largest number that does.
    """
    schema = arrow_schema(table)
    try:
        return pa.table(columns, schema=schema)
    except (OverflowError, pa.ArrowInvalid):
        fitting = {name: _fitting(schema.field(name).type, v) for name, v in columns.items()}
        return pa.table(fitting, schema=schema)


def _fitting(kind: Any, values: Sequence[Any]) -> Sequence[Any]:
    if not pa.types.is_integer(kind):
        return values
    bounds = np.iinfo(kind.to_pandas_dtype())
    least, most = int(bounds.min), int(bounds.max)
    return [v if v is None else max(least, min(v, most)) for v in values]


def _repaired(strings: Any) -> Any:
    """The same strings, readable: a tenant chooses its bytes, and a reader refuses bad UTF-8."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        raw = strings.cast(pa.binary())
        return pa.array(
            [None if b is None else b.decode("utf-8", "replace") for b in raw.to_pylist()]
        )
    return strings


def _text(values: Any) -> Any:
    """Strings by dictionary: each is checked once, and written once."""
    if pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary()).dictionary_encode()
    elif not pa.types.is_dictionary(values.type):
        values = values.cast(pa.string()).dictionary_encode()
    chunks = []
    for chunk in values.chunks:
        words = chunk.dictionary
        if not pa.types.is_string(words.type):
            # Viewing bytes as text does not look at them; repairing does.
            words = words.cast(pa.binary()).view(pa.string())
        indices = chunk.indices.cast(pa.int32())
        # The indices were within bounds before.
        chunks.append(pa.DictionaryArray.from_arrays(indices, _repaired(words), safe=False))
    return pa.chunked_array(chunks, type=_TEXT)


def _missing(table: Table, column: Column, rows: int) -> Any:
    if not column.nullable:
        raise StoreError(f"{table.name}.{column.name} is missing, and must not be NULL")
    kind = _TEXT if column.type == "string" else _arrow_type(column.type)
    return pa.chunked_array([nulls(rows, kind)])


def _column(table: Table, column: Column, values: Any) -> Any:
    if not column.nullable and values.null_count:
        raise StoreError(f"{table.name}.{column.name} is NULL in {values.null_count} rows")
    if column.type == "string":
        return _text(values)
    # A number that a tenant chose may not fit; it wraps rather than cost the batch.
    kind = _arrow_type(column.type)
    return values if values.type == kind else values.cast(kind, safe=False)


def conform(table: Table, data: Any) -> Any:
    """The rows with exactly the table's columns: in order, in type, NULL where not given."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    given = dict(zip(data.column_names, data.columns, strict=True))
    if strangers := given.keys() - {column.name for column in table.columns}:
        raise StoreError(f"{table.name} has no column {min(strangers)}; see cotenant.schema")
    columns = [
        _column(table, column, given[column.name])
        if column.name in given
        else _missing(table, column, data.num_rows)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=_written_schema(table))


def _leaf(column: Column) -> str:
    """The column's path in Parquet's schema, by which options are set; a list has its own."""
    return f"{column.name}.list.element" if column.type.startswith("list") else column.name


def _encoding(column: Column) -> str | None:
    """None is by dictionary."""
    if column.name == TIME:
        return "DELTA_BINARY_PACKED"
    return "PLAIN" if column.name in _DURATIONS or column.type.startswith("list") else None


@cache
def _layout(table: Table, *, fresh: bool) -> dict[str, Any]:
    encoding_of = {_leaf(column): _encoding(column) for column in table.columns}
    encoded = {leaf: encoding for leaf, encoding in encoding_of.items() if encoding}
    compressed = encoded if fresh else encoding_of
    return {
        "compression": {leaf: "zstd" if leaf in compressed else "none" for leaf in encoding_of},
        "compression_level": dict.fromkeys(compressed, 1),
        "use_dictionary": [leaf for leaf in encoding_of if leaf not in encoded],
        "column_encoding": encoded,
        "write_statistics": [c.name for c in table.columns if c.name in _SKIP_BY],
        "store_schema": False,
    }


def writer(table: Table, sink: Any, *, fresh: bool = False) -> Any:
    """A Parquet writer for this table's rows; rows come as ``conform`` leaves them."""
    return pq.ParquetWriter(sink, _written_schema(table), **_layout(table, fresh=fresh))


@cache
def _written_schema(table: Table) -> Any:
    return pa.schema(
        f.with_type(_TEXT) if pa.types.is_string(f.type) else f for f in arrow_schema(table)
    )


def write_rows(parquet: Any, table: Table, rows: Any) -> None:
    """Add rows to an open writer, as row groups of their own."""
    rows = rows.unify_dictionaries()
    if rows.schema != _written_schema(table):
        rows = rows.cast(_written_schema(table))
    parquet.write_table(rows, row_group_size=ROW_GROUP)


def encode(table: Table, rows: Any) -> memoryview:
    """The content of a fresh segment of these rows."""
    sink = pa.BufferOutputStream()
    parquet = writer(table, sink, fresh=True)
    write_rows(parquet, table, rows)
    parquet.close()
    return memoryview(sink.getvalue())


def span(rows: Any) -> tuple[int | None, int | None]:
    """First and last time in the rows; None where they have no time."""
    if TIME not in rows.column_names or not rows.num_rows:
        return None, None
    bounds = pc.min_max(rows.column(TIME))
    return bounds["min"].as_py(), bounds["max"].as_py()
