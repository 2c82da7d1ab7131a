"""Segments: what the columns become on disk."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store import segment
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


# DuckDB 0.9 and Arrow 14, both of 2023, were seen to read these: nothing newer may be written.
READABLE = {"PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED"}
LEVELS = {"RLE"}  # Of NULLs and lists, in every column that can have them.
BY_DICTIONARY = {"PLAIN", "RLE", "RLE_DICTIONARY"}  # The dictionary itself is PLAIN.
TIMES = {"timestamp_ns"}
PLAIN = {"duration_ns", "gpu_ns", "queue_ns", "rtt_ns", "histogram.list.element"}


def chunks(content):
    """Every column chunk of a segment, by its path in Parquet's schema."""
    group = pq.ParquetFile(pa.BufferReader(content)).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return {column.path_in_schema: column for column in columns}


def merged(table, rows):
    sink = pa.BufferOutputStream()
    with writer(table, sink) as parquet:
        write_rows(parquet, table, rows)
    return sink.getvalue()


def some_rows(table, count=101):
    """Rows with a value in every column."""
    values = {"string": "x", "bool": True, "float64": 1.5, "list<int64>": [0, 3, 0]}
    row = {column.name: values.get(column.type, 7) for column in table.columns}
    return conform(table, pa.Table.from_pylist([row] * count, schema=arrow_schema(table)))


@pytest.mark.parametrize("name", TABLES)
def test_every_column_has_the_encoding_and_compression_of_the_format(name):
    table = TABLES[name]
    rows = some_rows(table)
    fresh, whole = chunks(encode(table, rows)), chunks(merged(table, rows))
    assert {path.partition(".")[0] for path in fresh} == {c.name for c in table.columns}
    bits = {c.name for c in table.columns if c.type == "bool"}  # A bit needs no dictionary.
    for path in fresh:
        if path in TIMES:
            expected = {"DELTA_BINARY_PACKED"}
        elif path in PLAIN or path in bits:
            expected = {"PLAIN"}
        else:
            expected = BY_DICTIONARY
        for column in (fresh[path], whole[path]):
            assert set(column.encodings) | LEVELS == expected | LEVELS, path
            assert set(column.encodings) <= READABLE, path
        packed = path in TIMES | PLAIN
        assert fresh[path].compression == ("ZSTD" if packed else "UNCOMPRESSED"), path
        assert whole[path].compression == "ZSTD", path


def test_no_table_has_a_nested_column_that_this_test_does_not_know():
    nested = {
        path for table in TABLES.values() for path in chunks(merged(table, some_rows(table)))
        if "." in path
    }  # fmt: skip
    assert nested == {"histogram.list.element"}


def test_a_histogram_takes_few_bytes():
    totals = TABLES["totals"]
    rows = [[0] * 12 + [i % 7, i, i * 3 % 101, 1] + [0] * 24 for i in range(503)]
    data = some_rows(totals, len(rows)).drop_columns(["histogram"])
    data = conform(totals, data.append_column("histogram", pa.array(rows, pa.list_(pa.int64()))))
    for content in (encode(totals, data), merged(totals, data)):
        column = chunks(content)["histogram.list.element"]
        assert column.total_compressed_size <= 20 * len(rows)
        assert read(content)["histogram"].to_pylist() == rows


def test_durations_cost_a_cuda_row_at_most_2_percent_more_than_byte_by_byte(cuda_rows):
    rows = conform(CUDA, cuda_rows(ROWS))
    layout = segment._layout(CUDA, fresh=True)
    split = dict.fromkeys(layout["column_encoding"].keys() & PLAIN, "BYTE_STREAM_SPLIT")
    layout = layout | {"column_encoding": layout["column_encoding"] | split}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **layout) as parquet:
        write_rows(parquet, CUDA, rows)
    assert len(encode(CUDA, rows)) <= 1.02 * len(sink.getvalue())


def test_a_reader_can_skip_a_segment_by_its_times(cuda_rows):
    column = chunks(encode(CUDA, conform(CUDA, cuda_rows(1_009))))["timestamp_ns"]
    assert column.statistics.min == cuda_rows(1_009)["timestamp_ns"][0].as_py()


def test_a_merged_segment_holds_what_it_was_made_of(cuda_rows):
    rows = conform(CUDA, cuda_rows(1_009))
    assert read(merged(CUDA, rows)).to_pylist() == rows.to_pylist()


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
