"""Columns without a value in any row."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.store.nulls import nulls

KINDS = [
    pa.int64(), pa.int32(), pa.int16(), pa.bool_(), pa.float64(), pa.string(),
    pa.list_(pa.int64()), pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 1009])
def test_they_are_what_arrow_makes(kind: pa.DataType, rows: int) -> None:
    made = nulls(rows, kind)
    made.validate(full=True)
    assert made.equals(pa.nulls(rows, kind))
    assert (made.type, made.null_count) == (kind, rows)
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": made, "b": made}), sink)
    assert pq.read_table(sink)["a"].null_count == rows


def test_more_rows_than_there_are_zeros_are_made_one_by_one() -> None:
    rows = (1 << 20) + 1
    assert nulls(rows, pa.int64()).null_count == rows


def resident_kb() -> int:
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in x)
    return int(line.split()[1])


def test_they_take_up_no_memory() -> None:
    before = resident_kb()
    held = [nulls(1 << 20, pa.int64()) for _ in range(101)]
    assert sum(each.buffers()[1].to_pybytes().count(0) for each in held[:1]) == 8 << 20
    assert resident_kb() - before < 101 * 1024
    assert all(each.null_count == 1 << 20 for each in held)
