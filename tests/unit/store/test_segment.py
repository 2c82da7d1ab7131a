"""Segments: what the columns become on disk."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store.segment import arrow_schema, conform, encode, span, write_rows, writer

CUDA = TABLES["cuda_events"]
ROWS = 50_021


def minimal(**more):
    columns = {
        "timestamp_ns": [1_000, 3_000],
        "pid": [7, 7],
        "tid": [7, 8],
        "cgroup_id": [42, 42],
        "comm": ["a", "b"],
        "op": ["launch", "launch"],
        "api": ["cuLaunchKernel", "cuLaunchKernel"],
        "kernel_name": ["k", "k"],
        "weight": [1, 1],
    }
    return pa.table(columns | more)


def read(content):
    return pq.ParquetFile(pa.BufferReader(content)).read()


def test_a_realistic_cuda_row_takes_at_most_16_bytes(cuda_rows):
    content = encode(CUDA, conform(CUDA, cuda_rows(ROWS)))
    assert len(content) <= 16 * ROWS


def test_what_was_written_is_read_back(cuda_rows):
    rows = conform(CUDA, cuda_rows(1_009))
    assert read(encode(CUDA, rows)).to_pylist() == rows.to_pylist()


def test_columns_are_those_of_the_table_in_its_order_and_types():
    backwards = minimal().select(minimal().column_names[::-1])
    assert read(encode(CUDA, conform(CUDA, backwards))).schema == arrow_schema(CUDA)


def test_times_durations_and_strings_have_the_encodings_of_the_format(cuda_rows):
    content = encode(CUDA, conform(CUDA, cuda_rows(1_009)))
    group = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["timestamp_ns"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["duration_ns"].encodings
    assert "RLE_DICTIONARY" in columns["kernel_name"].encodings
    packed = {name for name, column in columns.items() if column.compression == "ZSTD"}
    assert packed == {"timestamp_ns", "duration_ns", "gpu_ns"}
    assert group.column(0).statistics.min == cuda_rows(1_009)["timestamp_ns"][0].as_py()


def test_a_merged_segment_is_compressed_whole(cuda_rows):
    sink = pa.BufferOutputStream()
    rows = conform(CUDA, cuda_rows(1_009))
    with writer(CUDA, sink) as parquet:
        write_rows(parquet, CUDA, rows)
    merged = sink.getvalue()
    group = pq.ParquetFile(pa.BufferReader(merged)).metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}
    assert read(merged).to_pylist() == rows.to_pylist()


def test_a_column_that_is_not_given_is_null():
    assert conform(CUDA, minimal())["gpu"].to_pylist() == [None, None]


def test_a_missing_column_that_may_not_be_null_is_refused():
    with pytest.raises(StoreError, match=r"cuda_events\.cgroup_id is missing"):
        conform(CUDA, minimal().drop_columns(["cgroup_id"]))


def test_a_null_where_there_may_be_none_is_refused():
    with pytest.raises(StoreError, match=r"cuda_events\.kernel_name is NULL in 1 rows"):
        conform(CUDA, minimal(kernel_name=["k", None]))


def test_a_column_that_the_table_lacks_is_refused():
    with pytest.raises(StoreError, match="cuda_events has no column colour"):
        conform(CUDA, minimal(colour=["red", "blue"]))


def test_bytes_that_are_no_text_are_stored_readably():
    raw = pa.array([b"good", b"\xff\xfebad"])
    rows = conform(CUDA, minimal(comm=raw))
    assert read(encode(CUDA, rows))["comm"].to_pylist() == ["good", "\ufffd\ufffdbad"]


def test_a_string_array_with_bad_bytes_is_repaired_too():
    raw = pa.array([b"good", b"\xff\xfebad"]).view(pa.string())
    assert conform(CUDA, minimal(comm=raw))["comm"].to_pylist() == ["good", "\ufffd\ufffdbad"]


def test_a_handle_with_its_top_bit_set_wraps_and_costs_no_batch():
    rows = conform(CUDA, minimal(stream=pa.array([2**64 - 1, 1], pa.uint64())))
    assert rows["stream"].to_pylist() == [-1, 1]


def test_dictionaries_that_differ_between_batches_stay_dictionaries():
    batches = [conform(CUDA, minimal(comm=[f"a{i}", f"b{i}"])) for i in range(53)]
    content = encode(CUDA, pa.concat_tables(batches))
    group = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0)
    assert "RLE_DICTIONARY" in group.column(4).encodings
    assert read(content)["comm"].to_pylist()[-2:] == ["a52", "b52"]


def test_a_list_column_is_kept():
    totals = TABLES["totals"]
    rows = pa.table(
        {
            "timestamp_ns": [1],
            "cgroup_id": [42],
            "family": ["cuda"],
            "function": ["cuLaunchKernel"],
            "count": [3],
            "sum_ns": [30],
            "max_ns": [20],
            "histogram": [[0, 0, 3]],
        }
    )
    assert read(encode(totals, conform(totals, rows)))["histogram"].to_pylist() == [[0, 0, 3]]


def test_the_span_is_that_of_the_times():
    assert span(minimal()) == (1_000, 3_000)


def test_rows_without_time_have_no_span():
    assert span(minimal().drop_columns(["timestamp_ns"])) == (None, None)
