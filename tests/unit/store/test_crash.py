"""What survives: kill -9 at any moment, a full disk, readers beside a writer."""

import os
import random
import signal
import subprocess
import sys
import time

import duckdb
import pytest

from cotenant.errors import StoreError
from cotenant.query.engine.session import Session
from cotenant.store.manifest import current_segments
from cotenant.store.writer import StoreWriter

KILLS = 7
READERS = 3
SECONDS = 4

# Each batch numbers its rows, so that a torn or doubled one is seen.
WRITER = """
import sys, time
import pyarrow as pa
from cotenant.store import compaction
from cotenant.store.compaction import Compactor
from cotenant.store.writer import StoreWriter

compaction.FILES_MERGED = 7
root, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
store = StoreWriter(root, node="node-a", boot_id="boot-1")
compactor = Compactor(store, share=0.5)
number = sum(s.rows for s in store.segments if s.table == "cuda_events")
print("ready", flush=True)
while time.monotonic() < until:
    for name in ("cuda_events", "losses"):
        rows = {"timestamp_ns": range(number, number + 101), "cgroup_id": [1] * 101}
        if name == "cuda_events":
            rows |= {c: [1] * 101 for c in ("pid", "tid", "weight")}
            rows |= {c: ["x"] * 101 for c in ("comm", "op", "api", "kernel_name")}
        else:
            rows |= {c: [1] * 101 for c in ("seen", "stored", "shed", "lost", "queued")}
            rows |= {"family": ["cuda"] * 101}
        store.append(name, pa.table({k: list(v) for k, v in rows.items()}))
    number += 101
    store.seal(time.time_ns())
    compactor.step(time.time_ns())
"""

READER = """
import sys, time
from cotenant.query.engine.session import Session

root, until, asked = sys.argv[1], time.monotonic() + float(sys.argv[2]), 0
while asked == 0 or time.monotonic() < until:
    with Session(root) as session:
        for _ in range(3):
            ((n, distinct, last, other),) = (
                tuple(row.values()) for row in session.ask(
                    "SELECT count(*), count(DISTINCT timestamp_ns), max(timestamp_ns), "
                    "(SELECT count(*) FROM losses) FROM cuda_events").rows())
            assert n == distinct == other and n % 101 == 0 and last in (None, n - 1), (n, distinct)
            asked += 1
print(asked)
"""


def start(code, root, seconds=SECONDS, **more):
    words = [sys.executable, "-c", code, str(root), str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def numbers(root):
    with Session(root) as session:
        sql = "SELECT timestamp_ns FROM cuda_events ORDER BY timestamp_ns"
        return session.ask(sql).table.column(0).to_pylist()


def test_every_query_beside_a_writer_is_answered_and_consistent(root):
    writer = start(WRITER, root)
    assert writer.stdout.readline() == b"ready\n"
    readers = [start(READER, root, SECONDS - 1) for _ in range(READERS)]
    answers = [reader.communicate(timeout=60) for reader in readers]
    _, errors = writer.communicate(timeout=60)
    assert (writer.returncode, errors) == (0, b"")
    assert [error for _, error in answers] == [b""] * READERS
    assert all(int(asked) > 0 for asked, _ in answers)


def test_a_killed_writer_leaves_a_whole_store(root):
    """Killed at random moments, again and again, on one store: nothing torn, nothing doubled."""
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    kept = 0
    for _ in range(KILLS):
        writer = start(WRITER, root, 60)
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(moments.uniform(0.01, 0.6))
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        found = numbers(root)
        assert found == list(range(len(found))), f"seed {seed}"
        assert len(found) % 101 == 0
        assert len(found) >= kept, f"seed {seed}"
        kept = len(found)
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        named = {segment.path for segment in store.segments}
    parts = [file for file in root.rglob("*.part")]
    assert parts == []
    assert all((root / path).exists() for path in named)
    globbed = duckdb.sql(f"SELECT count(*) FROM '{root}/cuda_events/**/*.parquet'").fetchall()
    assert globbed == [(kept,)]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_said_and_survived(small_disk, cuda_rows):
    root = small_disk / "store"
    ballast = small_disk / "ballast"
    now_ns = time.time_ns()
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        store.append("cuda_events", cuda_rows(1_009))
        store.seal(now_ns)
        ballast.write_bytes(b"x" * (small_disk_free(small_disk) - 8_192))
        store.append("cuda_events", cuda_rows(10_007))
        with pytest.raises(StoreError, match="the disk is full; free some space"):
            store.seal(now_ns)
        with Session(root) as session:
            assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 1_009}]
        ballast.unlink()
        assert store.seal(now_ns) == {"cuda_events": 10_007}
    with Session(root) as session:
        assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 11_016}]


def small_disk_free(place):
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def test_a_store_cannot_be_made_on_a_full_disk_and_says_so(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * small_disk_free(small_disk))
    with pytest.raises(StoreError, match="the disk is full"):
        StoreWriter(small_disk / "store", node="node-a", boot_id="boot-1")


def test_a_disk_that_turns_read_only_is_said_and_survived(small_disk, cuda_rows):
    root = small_disk / "store"
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        store.append("cuda_events", cuda_rows(1_009))
        lock, store._lock_fd = store._lock_fd, None
        os.close(lock)  # A file open for writing would keep the disk from turning read-only.
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        with pytest.raises(StoreError, match="the file system is read-only"):
            store.seal(time.time_ns())
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        assert store.seal(time.time_ns()) == {"cuda_events": 1_009}


def test_a_store_on_a_read_only_disk_is_read(small_disk, cuda_rows):
    root = small_disk / "store"
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        store.append("cuda_events", cuda_rows(1_009))
        store.seal(time.time_ns())
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with Session(root) as session:
        assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 1_009}]
    with pytest.raises(StoreError, match="the file system is read-only"):
        StoreWriter(root, node="node-a", boot_id="boot-1")
    assert len(current_segments(root)) == 1
