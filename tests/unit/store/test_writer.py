"""The writer: appended, sealed, visible; or none of it."""

import errno
import json
import os
import stat

import pyarrow as pa
import pytest

from cotenant.errors import StoreError
from cotenant.store import writer as writer_module
from cotenant.store.manifest import manifest_path
from cotenant.store.snapshot import PAGE_ROWS
from tests.unit.store.conftest import BOOT, NODE

NOW_NS = 1_790_000_000_000_000_000  # 2026-09-21, in the afternoon.
ROWS = 101


def files_of(root):
    return sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.is_file())


def test_sealed_rows_are_visible_and_buffered_ones_are_not(store, stored, cuda_rows):
    store.append("cuda_events", cuda_rows(ROWS))
    assert stored("cuda_events") == []
    assert store.seal(NOW_NS) == {"cuda_events": ROWS}
    assert len(stored("cuda_events")) == ROWS


def test_a_segment_lies_under_table_date_and_node(store, root, cuda_rows):
    store.append("cuda_events", cuda_rows(ROWS, start_ns=5_000))
    store.seal(NOW_NS)
    (segment,) = store.segments
    assert segment.partition == "cuda_events/date=2026-09-21/node=node-a"
    assert segment.path.endswith(f"/{segment.min_ns}-1.parquet")
    assert (root / segment.path).stat().st_size == segment.bytes


def test_the_manifest_says_what_each_segment_holds(store, root, cuda_rows):
    rows = cuda_rows(ROWS)
    store.append("cuda_events", rows)
    store.seal(NOW_NS)
    content = json.loads((root / "manifest" / "node-a.json").read_text())
    times = rows["timestamp_ns"].to_pylist()
    (entry,) = content["segments"]
    assert content["format"] == 1
    assert (entry["table"], entry["rows"]) == ("cuda_events", ROWS)
    assert (entry["min_ns"], entry["max_ns"]) == (min(times), max(times))


def test_a_seal_of_nothing_writes_nothing(store, root):
    before = files_of(root)
    assert store.seal(NOW_NS) == {}
    assert files_of(root) == before


def test_batches_of_one_seal_become_one_segment(store, stored, cuda_rows):
    for seed in range(7):
        store.append("cuda_events", cuda_rows(ROWS, seed=seed))
    store.append("cuda_events", cuda_rows(ROWS).to_batches()[0])
    store.seal(NOW_NS)
    assert len(store.segments) == 1
    assert len(stored("cuda_events")) == 8 * ROWS


def test_rows_sealed_before_a_restart_are_kept(open_writer, stored, cuda_rows):
    first = open_writer()
    first.append("cuda_events", cuda_rows(ROWS))
    first.seal(NOW_NS)
    first.close()
    second = open_writer()
    second.append("cuda_events", cuda_rows(ROWS))
    second.seal(NOW_NS)
    assert len({segment.path for segment in second.segments}) == 2
    assert len(stored("cuda_events")) == 2 * ROWS


def test_a_snapshot_has_one_file_per_boot_that_is_rewritten(store, stored, container):
    store.replace("containers", container(1, "before"))
    store.seal(NOW_NS)
    store.replace("containers", container(1, "after"))
    store.seal(NOW_NS + 86_400 * 10**9)
    assert [row["tenant"] for row in stored("containers")] == ["after"]
    assert len(store.segments) == 1


def test_rows_of_a_snapshot_that_wait_for_a_seal_add_up(store, stored, container):
    store.replace("containers", container(1, "first"))
    store.replace("containers", container(2, "second"))
    store.replace("containers", container(1, "third"))
    store.seal(NOW_NS)
    assert sorted(row["tenant"] for row in stored("containers")) == ["second", "third"]


def damage_footer(file):
    content = file.read_bytes()
    file.write_bytes(content[:-40] + bytes(32) + content[-8:])


@pytest.mark.parametrize(
    "harm", [lambda file: file.unlink(), lambda file: file.write_bytes(b"x"), damage_footer]
)
def test_a_snapshot_that_cannot_be_added_to_is_written_whole(store, stored, container, harm):
    store.replace("containers", container(1, "old"))
    store.seal(NOW_NS)
    harm(store.root / store.segments[0].path)
    store.replace("containers", container(2, "new"), whole=lambda: container(1, "old"))
    store.seal(NOW_NS)
    assert sorted(row["tenant"] for row in stored("containers")) == ["new", "old"]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_cgroup_heard_of_after_it_was_forgotten_keeps_its_name(sealed, store, stored, container):
    named = container(1, "train").append_column("cgroup_path", pa.array(["/docker/a"]))
    store.replace("containers", named)
    if sealed:
        store.seal(NOW_NS)
    store.replace("containers", container(1, "unknown"))
    store.replace("containers", container(2, "unknown"))
    store.seal(NOW_NS)
    rows = [(row["cgroup_id"], row["tenant"], row["cgroup_path"]) for row in stored("containers")]
    assert sorted(rows) == [(1, "train", "/docker/a"), (2, "unknown", None)]


def test_a_container_that_the_recorder_forgot_keeps_its_row(store, stored, container):
    store.replace("containers", container(1, "gone"))
    store.seal(NOW_NS)
    store.replace("containers", container(2, "here"))
    store.seal(NOW_NS)
    assert [row["tenant"] for row in stored("containers")] == ["gone", "here"]


def gone_containers(first, count, removed_ns):
    ids = range(first, first + count)
    return pa.table(
        {
            "cgroup_id": ids,
            "cgroup_path": [f"/docker/{i}" for i in ids],
            "container_id": [str(i) for i in ids],
            "tenant": [f"t{i}" for i in ids],
            "node": ["node-a"] * count,
            "boot_id": [BOOT] * count,
            "removed_ns": [removed_ns] * count,
        }
    )


@pytest.mark.parametrize("lost_manifest", [False, True])
def test_what_is_written_again_does_not_grow_with_the_containers_that_were(
    open_writer, stored, container, lost_manifest
):
    store = open_writer()
    second = 10**9
    for minute in range(60):
        now_ns = NOW_NS + minute * 60 * second
        store.replace("containers", gone_containers(1 + minute * 101, 101, now_ns))
        store.seal(now_ns)
        latest = max(store.segments, key=lambda s: int(s.path.rpartition("-")[2][:-8]))
        assert latest.rows <= PAGE_ROWS + 11 * 101
    assert len(store.segments) == 1 + 50 * 101 // (PAGE_ROWS + 101)
    folder = store.root / store.segments[0].partition
    assert len(list(folder.iterdir())) == len(store.segments)
    store.close()
    if lost_manifest:
        manifest_path(store.root, NODE).unlink()
    store = open_writer()
    # Heard of once more, without a path; and one of the present.
    store.replace("containers", container(7, "unknown"))
    store.replace("containers", container(7000, "present"))
    store.seal(NOW_NS + 3600 * second)
    rows = {row["cgroup_id"]: row["tenant"] for row in stored("containers")}
    assert rows == {i: f"t{i}" for i in range(1, 6061)} | {7000: "present"}
    assert len(stored("containers")) == 6061


def test_containers_of_an_earlier_boot_are_kept(open_writer, stored, container):
    first = open_writer(boot_id="boot-1")
    first.replace("containers", container(1, "then", "boot-1"))
    first.seal(NOW_NS)
    first.close()
    second = open_writer(boot_id="boot-2")
    second.replace("containers", container(2, "now", "boot-2"))
    second.seal(NOW_NS)
    assert sorted(row["tenant"] for row in stored("containers")) == ["now", "then"]


def test_each_recording_has_its_own_row_in_sessions(store, stored, recording):
    for name, ended in (("one", None), ("two", None), ("one", 5)):
        store.replace("sessions", recording(name, ended))
        store.seal(NOW_NS)
    assert sorted((r["session_id"], r["ended_ns"]) for r in stored("sessions")) == [
        ("one", 5),
        ("two", None),
    ]


def test_only_snapshot_tables_are_replaced(store, cuda_rows):
    with pytest.raises(StoreError, match=r"cuda_events is append-only; call append\(\)"):
        store.replace("cuda_events", cuda_rows(1))


def test_a_second_recorder_is_refused_by_the_first_ones_pid(store, root, open_writer):
    with pytest.raises(StoreError, match=f"process {os.getpid()} is recording into .*; stop it"):
        open_writer()


def test_the_store_is_free_again_after_close(store, open_writer):
    store.close()
    open_writer()


def test_a_directory_with_other_things_in_it_is_refused(root, open_writer):
    root.mkdir()
    (root / "thesis.tex").write_text("important")
    with pytest.raises(StoreError, match="not empty and not a store; name an empty directory"):
        open_writer()
    assert files_of(root) == ["thesis.tex"]


def test_a_file_is_no_store(root, open_writer):
    root.write_text("important")
    with pytest.raises(StoreError, match="is a file; name a directory"):
        open_writer()


def test_a_newer_format_is_refused(store, root, open_writer):
    store.close()
    (root / "store.json").write_text('{"format": 2}')
    with pytest.raises(StoreError, match="store format 2; this cotenant reads up to 1"):
        open_writer()


def test_unfinished_files_and_unnamed_segments_are_removed_at_open(
    store, root, open_writer, stored, cuda_rows
):
    store.append("cuda_events", cuda_rows(ROWS))
    store.seal(NOW_NS)
    store.close()
    folder = root / store.segments[0].partition
    (folder / ".9-9.parquet.part").write_bytes(b"half")
    (folder / "9-9.parquet").write_bytes(b"never named")
    (root / "manifest" / ".node-a.json.part").write_bytes(b"half")
    open_writer()
    assert sorted(f.name for f in folder.iterdir()) == [store.segments[0].path.split("/")[-1]]
    assert not (root / "manifest" / ".node-a.json.part").exists()
    assert len(stored("cuda_events")) == ROWS


def test_files_of_another_node_are_left_alone(store, root, open_writer, cuda_rows, stored):
    other = open_writer(node="node-b")
    other.append("cuda_events", cuda_rows(ROWS))
    other.seal(NOW_NS)
    store.append("cuda_events", cuda_rows(ROWS))
    store.seal(NOW_NS)
    store.close()
    open_writer()
    assert len(stored("cuda_events")) == 2 * ROWS


@pytest.mark.parametrize("damage", ["delete", "garble"])
def test_a_lost_manifest_costs_no_rows(
    damage, store, root, open_writer, stored, cuda_rows, container
):
    store.append("cuda_events", cuda_rows(ROWS))
    store.replace("containers", container(1, "a"))
    store.seal(NOW_NS)
    before = store.segments[0]
    store.close()
    manifest = root / "manifest" / "node-a.json"
    manifest.unlink() if damage == "delete" else manifest.write_text('{"format": 1, "seg')
    again = open_writer()
    again.replace("containers", container(1, "b"))
    again.seal(NOW_NS)
    assert len(stored("cuda_events")) == ROWS
    assert [row["tenant"] for row in stored("containers")] == ["b"]
    adopted = next(s for s in again.segments if s.table == "cuda_events")
    assert (adopted.rows, adopted.min_ns, adopted.max_ns) == (ROWS, before.min_ns, before.max_ns)


def test_group_may_read_and_others_may_not(open_writer, root, cuda_rows):
    store = open_writer(gid=65534)
    store.append("cuda_events", cuda_rows(ROWS))
    old = os.umask(0o077)
    store.seal(NOW_NS)
    os.umask(old)
    for path in [root, *root.rglob("*")]:
        status = path.stat()
        if not path.name.startswith(".lock"):
            assert status.st_gid == 65534
            assert stat.S_IMODE(status.st_mode) & 0o777 == (0o750 if path.is_dir() else 0o640)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full; free some space"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permission denied"),
    ],
)
@pytest.mark.parametrize("step", ["write_part", "_write_manifest", "sync_directory"])
def test_a_seal_that_fails_keeps_the_rows_for_the_next_one(
    number, words, step, store, root, stored, cuda_rows, container, monkeypatch
):
    store.append("cuda_events", cuda_rows(ROWS))
    store.replace("containers", container(1, "a"))
    store.seal(NOW_NS)
    before = files_of(root)
    store.append("cuda_events", cuda_rows(ROWS, seed=8))
    store.replace("containers", container(2, "b"))

    def fail(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(writer_module, step, fail)
        with pytest.raises(StoreError, match=words):
            store.seal(NOW_NS)
    assert files_of(root) == before
    assert len(stored("cuda_events")) == ROWS
    store.append("cuda_events", cuda_rows(ROWS, seed=9))
    assert store.seal(NOW_NS) == {"cuda_events": 2 * ROWS, "containers": 2}
    assert len(stored("cuda_events")) == 3 * ROWS


def test_rows_that_cannot_be_written_are_refused_beyond_a_bound(open_writer, cuda_rows):
    store = open_writer(max_buffered_bytes=1 << 20)
    store.append("cuda_events", cuda_rows(ROWS))
    held = store.buffered_bytes
    with pytest.raises(StoreError, match="dropped 10007 rows of cuda_events"):
        store.append("cuda_events", cuda_rows(10_007))
    assert store.buffered_bytes == held
    assert store.seal(NOW_NS)["cuda_events"] == ROWS
    assert store.buffered_bytes == 0


def test_a_store_deleted_under_the_recorder_is_said_to_be_gone(store, root, cuda_rows):
    store.append("cuda_events", cuda_rows(ROWS))
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(StoreError, match="it is gone; was the store moved or deleted"):
        store.seal(NOW_NS)
    root.with_name("elsewhere").rename(root)
    assert store.seal(NOW_NS) == {"cuda_events": ROWS}


def test_the_manifest_stays_small_enough_for_two_seals_a_second(store, root, cuda_rows):
    for _ in range(53):
        store.append("cuda_events", cuda_rows(3))
        store.seal(NOW_NS)
    assert (root / "manifest" / "node-a.json").stat().st_size < 53 * 260
