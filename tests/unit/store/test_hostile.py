"""A store that somebody prepared for its reader: whatever lies there, one line and no waiting."""

import contextlib
import gc
import gzip
import io
import json
import os
import socket

import pyarrow as pa
import pytest

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store.manifest import (
    Manifest,
    current_segments,
    packed_manifest,
    parse_manifest,
)
from cotenant.store.plain_file import parse_json
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.unit.store.conftest import NODE

NOW_NS = 1_790_000_000_000_000_000
ROWS = 101
COUNT = "SELECT count(*) AS n FROM cuda_events"
pytestmark = pytest.mark.timeout(20)  # Who waits for a FIFO waits for ever.


def read(root, sql=COUNT):
    """What `cotenant sql` says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["sql", sql, "--store", str(root), "--format", "csv"])
    return code, out.getvalue(), err.getvalue()


def refused(root, sql=COUNT):
    code, out, err = read(root, sql)
    assert (code, out) == (1, "")
    assert err.startswith("cotenant: ")
    assert err.count("\n") == 1
    return err


def put(kind, path):
    """Something at this path that is no plain file."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        # Its path may have a hundred characters, and a test's directory has more.
        before = os.getcwd()
        os.chdir(path.parent)
        try:
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(path.name)
        finally:
            os.chdir(before)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "terminal":
        path.symlink_to("/dev/tty")
    elif kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "process":
        path.symlink_to("/proc/kmsg")
    else:
        pipe, _ = os.pipe()
        path.symlink_to(f"/proc/{os.getpid()}/fd/{pipe}")


KINDS = ("fifo", "socket", "device", "terminal", "directory", "loop", "process", "pipe")


@pytest.fixture
def filled(root, cuda_rows):
    """Two segments of as many rows."""
    with StoreWriter(root, node=NODE, boot_id="b") as writer:
        who = {"cgroup_id": 1, "container_id": "c", "tenant": "t", "node": NODE, "boot_id": "b"}
        writer.replace("containers", pa.Table.from_pylist([who]))
        for seed in (1, 2):
            writer.append("cuda_events", cuda_rows(ROWS, seed=seed))
            writer.seal(NOW_NS)
    return root


def segments(root, table="cuda_events"):
    return [root / s.path for s in current_segments(root) if s.table == table]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("named", [True, False], ids=["named", "found"])
def test_a_segment_that_is_no_file_is_missing_and_nobody_waits_for_it(filled, kind, named):
    first, _ = segments(filled)
    if not named:
        (filled / "manifest" / f"{NODE}.json").unlink()
    put(kind, first)

    code, out, err = read(filled)

    assert (code, out) == (0, f'"n"\n{ROWS}\n')
    assert "incomplete: 1 segments are missing" in err


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_that_is_no_file_is_missing_too(filled, kind):
    (only,) = segments(filled, "containers")
    put(kind, only)
    code, out, err = read(filled, "SELECT count(*) AS n FROM containers")
    assert (code, out) == (0, '"n"\n0\n')
    assert "incomplete: 1 segments are missing" in err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "loop"])
@pytest.mark.parametrize("name", ["store.json", f"manifest/{NODE}.json"])
def test_a_mark_or_manifest_that_is_no_file_is_refused_in_words(filled, kind, name):
    put(kind, filled / name)
    why = "temporarily unavailable" if kind == "process" else "it is no plain file"
    assert why in refused(filled)


@pytest.mark.parametrize("name", ["store.json", f"manifest/{NODE}.json"])
def test_a_mark_or_manifest_that_links_to_itself_is_refused_in_words(filled, name):
    put("loop", filled / name)
    assert name in refused(filled)


@pytest.mark.parametrize("name", ["store.json", f"manifest/{NODE}.json"])
def test_a_mark_or_manifest_of_a_terabyte_is_refused_in_words(filled, name):
    os.truncate(filled / name, 1 << 40)
    assert "MiB" in refused(filled)


def test_a_segment_of_a_terabyte_without_content_is_refused_in_words(filled):
    for file in segments(filled):
        os.truncate(file, 1 << 40)
    assert ".parquet" in refused(filled, "SELECT sum(duration_ns) FROM cuda_events")


def test_a_manifest_that_grows_while_it_is_read_has_an_end(filled, monkeypatch):
    from cotenant.errors import StoreError
    from cotenant.store import plain_file

    read_once = os.read
    monkeypatch.setattr(plain_file.os, "read", lambda fd, size: read_once(fd, size) or b" " * size)
    with pytest.raises(StoreError, match="grows"):
        current_segments(filled)


DEEP = "[" * 200_000
SEGMENT = {
    "table": "cuda_events",
    "path": f"cuda_events/date=2026-09-21/node={NODE}/1-1.parquet",
    "rows": 1,
    "bytes": 1,
}


def with_segment(**changed):
    return json.dumps({"format": 1, "next": 2, "segments": [SEGMENT | changed]})


@pytest.mark.parametrize(
    "text",
    [
        DEEP,
        '{"format": 1, "next": 1, "segments": ' + DEEP,
        '{"a":' * 100_000,
        "",
        "null",
        "[]",
        '{"format": "1"}',
        '{"format": 1, "next": "x", "segments": []}',
        '{"format": 1, "next": 1, "segments": {}}',
        '{"format": 1, "next": 1, "segments": [7]}',
        '{"format": 1, "next": ' + "9" * 5_000 + ', "segments": []}',
        '{"format": 1, "next": 1e999, "segments": []}',
        with_segment(table=["cuda_events"]),
        with_segment(table=7),
        with_segment(path=7),
        with_segment(path="cuda_events/date=2026-09-21/node=n/\x00.parquet"),
        with_segment(path="cuda_events/date=2026-09-21/node=n/*.parquet"),
        with_segment(path="cuda_events/date=2026-09-21/node=n/a\nb.parquet"),
        with_segment(path="cuda_events/date=../node=../../../x.parquet"),
        with_segment(rows="many"),
        with_segment(rows=-1),
        with_segment(rows=True),
        with_segment(min_ns="then"),
        with_segment(max_ns=1.5),
        with_segment(min_ns=1 << 70, max_ns=1 << 71),
        with_segment(bytes=None),
        with_segment(schema=[]),
        with_segment(key={}),
        with_segment(level="deep"),
        *(
            json.dumps({"format": 1, "next": 1, "segments": [], "absent": absent})
            for absent in ([], {"t": 7}, {"t": [[1]]}, {"t": [[-1, 2]]})
        ),
    ],
    ids=range(33),
)
def test_a_manifest_that_is_none_is_damaged(filled, text):
    (filled / "manifest" / f"{NODE}.json").write_text(text)
    assert "is damaged" in refused(filled)


class Garbage:
    """What only a collection finds, and what calls something then."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        json.dumps({"gone": 1})


@pytest.fixture
def only_new_garbage():
    """All that is there is left out of collections: of a worker's millions each takes long."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("only_new_garbage")
def test_garbage_that_is_collected_while_a_deep_file_is_read_says_nothing(monkeypatch):
    said = []
    monkeypatch.setattr("sys.unraisablehook", said.append)
    for most in range(801, 1_001):
        gc.collect()
        for _ in range(3):
            Garbage()
        # A collection each time that so many were made: at some depth or other.
        gc.set_threshold(most)
        with pytest.raises(ValueError, match="nested too deep"):
            parse_json(DEEP)
        assert gc.isenabled()
    assert said == []


@pytest.mark.parametrize("text", [DEEP, '{"format": ' + DEEP, '{"format": 1e999}'], ids=range(3))
def test_a_mark_that_is_none_is_damaged(filled, text):
    (filled / "store.json").write_text(text)
    assert "is damaged" in refused(filled)


@pytest.mark.parametrize("kind", ["fifo", "loop", "directory", "deep"])
def test_a_recorder_takes_over_what_is_there_and_waits_for_nobody(filled, cuda_rows, kind):
    manifest = filled / "manifest" / f"{NODE}.json"
    graveyard = filled / "manifest" / f"{NODE}.graveyard"
    first, _ = segments(filled)
    if kind == "deep":
        manifest.write_text(DEEP)
        graveyard.write_text(DEEP)
    else:
        manifest.unlink()
        put(kind, first)
        put(kind, graveyard)
    with StoreWriter(filled, node=NODE, boot_id="b") as writer:
        kept = sum(s.rows for s in writer.segments if s.table == "cuda_events")
    assert kept == (2 * ROWS if kind == "deep" else ROWS)


def test_notes_of_a_recording_may_be_nested_however_deep(root):
    needed = [column for column in TABLES["sessions"].columns if not column.nullable]
    row = {column.name: "" if column.type == "string" else 0 for column in needed}
    row |= {"session_id": "s", "started_ns": NOW_NS, "notes": DEEP}
    with StoreWriter(root, node=NODE, boot_id="b") as writer:
        writer.replace("sessions", pa.Table.from_pylist([row]))
        writer.append("cuda_events", _event())
        writer.seal(NOW_NS)
    assert read(root)[:2] == (0, '"n"\n1\n')


def _event():
    row = {"timestamp_ns": NOW_NS, "pid": 1, "tid": 1, "cgroup_id": 1, "comm": "c", "weight": 1}
    row |= {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "k", "duration_ns": 1}
    return pa.Table.from_pylist([row])


def test_sql_may_be_nested_however_deep(filled):
    for sql in (
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT " + "1+" * 5_000 + "1",
        "SELECT " + "abs(" * 900 + "1" + ")" * 900,
        "SELECT * FROM " + "(SELECT * FROM " * 300 + "cuda_events" + ")" * 300,
    ):
        code, _, err = read(filled, sql)
        assert code in (0, 1)
        assert err.count("\n") <= 1


def test_a_packed_manifest_that_is_cut_or_huge_is_damaged():
    packed = packed_manifest(Manifest(1, ()))
    assert parse_manifest(packed, "m") == Manifest(1, ())
    for content in (packed[:-9], packed[:4], gzip.compress(b" " * (65 << 20))):
        with pytest.raises(StoreError, match="m is damaged"):
            parse_manifest(content, "m")
