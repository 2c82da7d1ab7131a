"""What is read of profilers' files, and what is refused."""

import gzip
import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.profiles import operations as operations_module
from cotenant.profiles.importing import read
from cotenant.profiles.operations import COPY, GRAPH, LAUNCH, SET, ProfileError
from tests.profile_files import nsys_export, torch_trace

MS = 1_000_000
UTC = 1_790_000_000_000_000_000


def line(op, at, *, kernel=None, tid=100, took=MS, **more):
    """A line of the stand-in's log."""
    row = {"op": op, "api": f"cu{op}", "pid": 100, "tid": tid, "result": 0}
    row |= {"t_begin": at, "t_end": at + 2000, "device_start": at + 3000}
    row |= {"device_end": at + 3000 + took}
    if kernel:
        row |= {"kernel": kernel, "grid": [3, 2, 1], "block": [32, 1, 1]}
    return row | more


LINES = [
    line("launch", 5 * MS, kernel="_Z4gemmIfEvPT_", api="cuLaunchKernel"),
    line("launch", 6 * MS, kernel="touch", tid=101, api="cuLaunchKernel"),
    line("memcpy", 7 * MS, bytes=4096, direction="HtoD", api="cuMemcpyHtoDAsync_v2"),
    line("memset", 8 * MS, bytes=512, api="cuMemsetD8Async"),
    {"op": "graph_launch", "api": "cuGraphLaunch", "pid": 100, "tid": 100, "result": 0}
    | {"t_begin": 9 * MS, "t_end": 9 * MS + 900, "graph": 77},
    {"op": "graph_kernel", "graph": 77, "kernel": "touch", "grid": [1, 1, 1], "block": [1, 1, 1]}
    | {"device_start": 10 * MS, "device_end": 12 * MS},
    {"op": "graph_kernel", "graph": 77, "kernel": "gemm", "grid": [1, 1, 1], "block": [1, 1, 1]}
    | {"device_start": 11 * MS, "device_end": 14 * MS},
]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, LINES)))
    return path


def made(kind, tmp_path, log):
    if kind == "nsys":
        return nsys_export(tmp_path / "run.sqlite", [log], UTC)
    return torch_trace(tmp_path / f"trace.{kind}", log, UTC)


@pytest.mark.parametrize("kind", ["json", "json.gz", "nsys"])
def test_operations_are_what_the_log_has(tmp_path, log, kind):
    program, found = read(made(kind, tmp_path, log))
    assert program == ("nsys" if kind == "nsys" else "PyTorch")
    assert found.called.tolist() == [UTC + at * MS for at in (5, 6, 7, 8, 9)]
    assert found.kind.tolist() == [LAUNCH, LAUNCH, COPY, SET, GRAPH]
    # The kernels of a graph are one operation, and overlap.
    assert found.gpu_ns.tolist() == [MS, MS, MS, MS, 4 * MS]
    assert [found.names[n] for n in found.name[:3].tolist()] == ["gemm", "touch", "HtoD"]
    assert found.size.tolist() == [192, 192, 4096, 512, 0]
    assert found.shape[0] == found.shape[1] != 0
    assert found.thread[0] == found.thread[2] != found.thread[1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no JSON"),
        (b"{", "cut short"),
        (b"hello", "no JSON"),
        (b"[1]", "no JSON"),
        (b'{"traceEvents": []}', "no schemaVersion"),
        (b'{"schemaVersion": 2, "traceEvents": []}', "version 2"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "no operations"),
        (b'{"schemaVersion": 1, "baseTimeNanoseconds": -4}', "no time"),
        (b'{"schemaVersion": 1, "traceEvents": [{"ph": "X"', "cut short"),
        (gzip.compress(b'{"schemaVersion": 1}', mtime=0)[:-9], "damaged"),
        (b"\x1f\x8bnonsense", "damaged"),
        (b"SQLite format 3\x00" + b"x" * 90, "damaged"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, text, why):
    path = tmp_path / "file"
    path.write_bytes(text)
    with pytest.raises(ProfileError, match=why) as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="cannot read"):
        read(tmp_path / "none")
    with pytest.raises(ProfileError, match="cannot read"):
        read(tmp_path)


def test_another_version_of_nsys_is_refused(tmp_path, log):
    path = nsys_export(tmp_path / "run.sqlite", [log], UTC, version="9.1.0")
    with pytest.raises(ProfileError, match=r"version 9\.1\.0"):
        read(path)


def sqlite_file(path, *statements):
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    return path


VERSION = (
    "create table META_DATA_EXPORT (name text, value text)",
    "insert into META_DATA_EXPORT values ('EXPORT_SCHEMA_VERSION', '3.1.0')",
)


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (("create table songs (name text)",), "no SQLite export"),
        (VERSION, "no calls of CUDA"),
        (
            (*VERSION, "create view CUPTI_ACTIVITY_KIND_RUNTIME as with recursive r(n) as "
             "(select 1 union all select n + 1 from r) select n as start from r"),
            "no calls of CUDA",
        ),
        (
            ("create view META_DATA_EXPORT as select 'EXPORT_SCHEMA_VERSION' name, '3' value",),
            "no SQLite export",
        ),
    ],
)  # fmt: skip
def test_other_databases_and_computed_tables_are_refused(tmp_path, statements, why):
    with pytest.raises(ProfileError, match=why):
        read(sqlite_file(tmp_path / "other.sqlite", *statements))


def test_calls_are_needed(tmp_path, log):
    path = made("nsys", tmp_path, log)
    sqlite_file(path, "delete from CUPTI_ACTIVITY_KIND_RUNTIME")
    with pytest.raises(ProfileError, match="lacks the calls"):
        read(path)


def test_traces_of_several_processes_are_refused(tmp_path, log):
    path = made("json", tmp_path, log)
    trace = json.loads(path.read_text())
    next(e for e in trace["traceEvents"] if e.get("cat") == "cuda_driver")["pid"] = 18
    path.write_text(json.dumps(trace))
    with pytest.raises(ProfileError, match="several processes"):
        read(path)


@pytest.mark.parametrize("kind", ["json", "nsys"])
def test_files_with_too_many_operations_are_refused(tmp_path, log, kind, monkeypatch):
    monkeypatch.setattr(operations_module, "MOST_OPERATIONS", 3)
    with pytest.raises(ProfileError, match="more than 3 operations"):
        read(made(kind, tmp_path, log))


def check_read(path):
    """It is read, or refused in one line."""
    said = []
    try:
        _, found = read(path)
        assert (found.gpu_ns >= 0).all()
    except ProfileError as error:
        said = str(error).splitlines()
    assert len(said) <= 1


wild = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
wild = wild | st.lists(wild, max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(
    ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "correlation", "grid", "bytes"]
), wild), max_size=6))  # fmt: skip
def test_events_with_any_values_are_read_or_refused(tmp_path, log, changes):
    path = made("json", tmp_path, log)
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    for number, key, value in changes:
        event = events[number % len(events)]
        inside = event["args"] if isinstance(event.get("args"), dict) else event
        (inside if key in ("correlation", "grid", "bytes") else event)[key] = value
    path.write_text(json.dumps(trace))
    check_read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(
    ["RUNTIME.start", "RUNTIME.globalTid", "RUNTIME.correlationId", "RUNTIME.nameId", "KERNEL.end",
     "KERNEL.globalPid", "KERNEL.gridX", "KERNEL.demangledName", "MEMCPY.bytes", "MEMCPY.copyKind"]
), st.integers(-(1 << 63), (1 << 63) - 1) | st.floats() | st.text(max_size=4) | st.binary()),
    max_size=4))  # fmt: skip
def test_rows_with_any_values_are_read_or_refused(tmp_path, log, changes):
    path = tmp_path / "run.sqlite"
    path.unlink(missing_ok=True)
    made("nsys", tmp_path, log)
    with sqlite3.connect(path) as database:
        for place, value in changes:
            table, column = place.split(".")
            database.execute(
                f'update or ignore CUPTI_ACTIVITY_KIND_{table} set "{column}" = ? where rowid = 1',
                (value,),
            )
    check_read(path)
