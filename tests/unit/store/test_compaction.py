"""Compaction and retention: fewer and fewer bytes, never a failed or doubled answer."""

from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.dataset import dataset

from cotenant.errors import StoreError
from cotenant.store import compaction
from cotenant.store.compaction import Compactor
from cotenant.store.graveyard import GRACE_NS, is_hidden
from cotenant.store.manifest import walk
from cotenant.store.retention import Retention, RetentionLimits

NOW_NS = 1_790_000_000_000_000_000
DAY_NS = 86_400 * 10**9
ROWS = 53
FILES_MERGED = 5
LOSSES = 7  # Segments a day.


@pytest.fixture(autouse=True)
def merges_of_five(monkeypatch):
    monkeypatch.setattr(compaction, "FILES_MERGED", FILES_MERGED)


@pytest.fixture
def fill(store, cuda_rows):
    """``fill(seals)``: that many segments, each later than the one before."""

    def fill(seals, now_ns=NOW_NS):
        for i in range(seals):
            store.append("cuda_events", cuda_rows(ROWS, seed=i, start_ns=now_ns + i * 10**9))
            store.seal(now_ns)
        return seals * ROWS

    return fill


@pytest.fixture
def compactor(store):
    return Compactor(store, share=1e9)


def rows_in_folders(root):
    """What engines find that know nothing of a manifest; they agree on what is hidden."""
    walked = sum(pq.ParquetFile(root / s.path).metadata.num_rows for s in walk(root))
    globbed = duckdb.sql(f"SELECT count(*) FROM '{root}/cuda_events/**/*.parquet'").fetchall()
    arrow = dataset(root / "cuda_events", format="parquet", partitioning="hive").count_rows()
    assert globbed == [(walked,)]
    assert arrow == walked
    return walked


def test_many_small_segments_become_one_in_order_of_time(store, stored, fill, compactor):
    made = fill(FILES_MERGED)
    before = sorted(map(str, stored("cuda_events")))
    assert compactor.step(NOW_NS) is True
    (merged,) = store.segments
    rows = stored("cuda_events")
    times = [row["timestamp_ns"] for row in rows]
    assert (merged.rows, merged.level, len(rows)) == (made, 1, made)
    assert times == sorted(times)
    assert sorted(map(str, rows)) == before


def test_a_merge_holds_no_more_rows_at_once_than_a_group_of_them(
    root, store, fill, compactor, monkeypatch
):
    monkeypatch.setattr(compaction, "ROW_GROUP", 2 * ROWS + 11)
    monkeypatch.setattr(compaction, "BIG_ROWS", 2 * ROWS)
    fill(FILES_MERGED)
    assert compactor.step(NOW_NS) is True
    (merged,) = store.segments
    about = pq.ParquetFile(root / merged.path).metadata
    groups = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
    assert groups == [2 * ROWS, 2 * ROWS, ROWS]


def test_a_table_of_few_rows_does_not_wait_for_one_of_many(store, fill, compactor):
    for i in range(FILES_MERGED):
        row = {"timestamp_ns": NOW_NS + i, "cgroup_id": 1, "family": "cuda", "seen": 1}
        row |= {"stored": 1, "shed": 0, "lost": 0, "queued": 0}
        store.append("losses", pa.Table.from_pylist([row]))
        fill(1, NOW_NS + i * 10**9)
    compactor.step(NOW_NS)
    levels = {(s.table, s.level) for s in store.segments}
    assert levels == {("losses", 1), ("cuda_events", 0)}
    compactor.step(NOW_NS)
    assert {(s.table, s.level) for s in store.segments} == {("losses", 1), ("cuda_events", 1)}


def test_it_rests_the_less_the_more_files_wait(store, fill, monkeypatch):
    monkeypatch.setattr(compaction, "FEW_WAIT", 7)
    rests = []
    for waiting in (0, 7, 700):
        monkeypatch.setattr(compaction.time, "thread_time", iter((0.0, 1.0)).__next__)
        compactor = Compactor(store)
        fill(FILES_MERGED + waiting)
        monkeypatch.setattr(compaction, "fitting", lambda group: group[:FILES_MERGED])
        assert compactor.step(NOW_NS) is True
        rests.append(round(compactor.rest_s))
    assert rests == [20, 10, 2]


def test_one_damaged_segment_does_not_keep_the_others_from_being_merged(store, fill, compactor):
    fill(FILES_MERGED + 1)
    damaged = sorted(store.segments, key=lambda s: s.min_ns)[2]
    file = store.root / damaged.path
    file.write_bytes(b"PAR1" + bytes(damaged.bytes - 8) + b"PAR1")
    with pytest.raises(StoreError, match="its segments stay"):
        compactor.step(NOW_NS)
    assert compactor.step(NOW_NS) is True
    assert sorted(s.rows for s in store.segments) == [ROWS, FILES_MERGED * ROWS]
    assert list(store.root.rglob("*.part*")) == []


def test_tables_of_a_later_version_are_left_alone(store, fill, compactor, monkeypatch):
    fill(FILES_MERGED)
    monkeypatch.setattr(compaction, "TABLES", {})
    assert compactor.step(NOW_NS) is False


def test_a_few_segments_of_today_are_left_alone(store, fill, compactor):
    fill(FILES_MERGED - 1)
    assert compactor.step(NOW_NS) is False
    assert len(store.segments) == FILES_MERGED - 1


def test_a_few_segments_of_yesterday_are_merged(store, fill, compactor):
    fill(3)
    assert compactor.step(NOW_NS + DAY_NS) is True
    assert len(store.segments) == 1


def test_whoever_reads_the_folders_never_meets_a_row_twice(root, store, fill, compactor):
    made = fill(FILES_MERGED)
    compactor.step(NOW_NS)
    assert rows_in_folders(root) == made
    compactor.step(NOW_NS + GRACE_NS)
    assert rows_in_folders(root) == made
    assert [is_hidden(s.path) for s in store.segments] == [False]


def test_replaced_files_stay_for_ten_minutes_and_then_go(root, store, fill, compactor):
    fill(FILES_MERGED)
    old = [root / s.path for s in store.segments]
    compactor.step(NOW_NS)
    compactor.step(NOW_NS + GRACE_NS - 1)
    assert all(file.exists() for file in old)
    compactor.step(NOW_NS + GRACE_NS)
    assert not any(file.exists() for file in old)
    compactor.step(NOW_NS + 2 * GRACE_NS)
    folder = root / store.segments[0].partition
    assert [str(f.relative_to(root)) for f in folder.iterdir()] == [store.segments[0].path]


def test_the_list_of_replaced_files_survives_a_restart(root, store, fill, compactor, open_writer):
    made = fill(FILES_MERGED)
    old = [root / s.path for s in store.segments]
    compactor.step(NOW_NS)
    store.close()
    again = open_writer()
    assert all(file.exists() for file in old)
    Compactor(again).step(NOW_NS + GRACE_NS)
    assert not any(file.exists() for file in old)
    assert rows_in_folders(root) == made


def test_merged_segments_are_merged_again(store, fill, compactor, stored):
    made = 0
    for _ in range(FILES_MERGED):
        made += fill(FILES_MERGED)
        compactor.step(NOW_NS)
    compactor.step(NOW_NS + GRACE_NS)
    assert [(s.rows, s.level) for s in store.segments] == [(made, 2)]
    assert len(stored("cuda_events")) == made


def test_a_crash_before_the_manifest_is_replaced_loses_nothing(
    root, store, fill, compactor, open_writer, stored, monkeypatch
):
    made = fill(FILES_MERGED)

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    monkeypatch.setattr(store, "_commit", die)
    with pytest.raises(Killed):
        compactor.step(NOW_NS)
    store.close()
    again = open_writer()
    assert len(stored("cuda_events")) == made
    Compactor(again).step(NOW_NS + GRACE_NS)
    assert len(stored("cuda_events")) == made
    assert rows_in_folders(root) == made


def test_compaction_rests_in_proportion_to_its_work(store, fill):
    compactor = Compactor(store, share=1e-9)
    fill(FILES_MERGED)
    assert compactor.step(NOW_NS) is True
    fill(FILES_MERGED)
    assert compactor.step(NOW_NS) is False


def test_snapshots_are_never_merged(store, container, compactor):
    for i in range(3):
        store.replace("containers", container(i, "a"), key=f"boot-{i}")
        store.seal(NOW_NS)
    assert compactor.step(NOW_NS + DAY_NS) is False


def test_rows_older_than_the_limit_go_and_the_rest_stays(store, fill, stored):
    fill(3, NOW_NS - 2 * DAY_NS)
    fresh = fill(5)
    retention = Retention(store, RetentionLimits(keep_ns=DAY_NS))
    assert retention.step(NOW_NS) is True
    assert retention.step(NOW_NS) is False
    assert len(stored("cuda_events")) == fresh


def test_expired_files_stay_readable_for_ten_minutes(root, store, fill):
    fill(3, NOW_NS - 2 * DAY_NS)
    old = [root / s.path for s in store.segments]
    Retention(store, RetentionLimits(keep_ns=DAY_NS)).step(NOW_NS)
    assert all(file.exists() for file in old)
    store.bury(NOW_NS + GRACE_NS)
    assert not any(file.exists() for file in old)


def test_the_oldest_rows_go_first_when_there_are_too_many_bytes(store, fill):
    fill(7)
    newest = store.segments[3:]
    limit = sum(s.bytes for s in newest)
    Retention(store, RetentionLimits(max_bytes=limit)).step(NOW_NS)
    assert store.segments == newest


def rollup(store, timestamp_ns):
    row = {"timestamp_ns": [timestamp_ns], "cgroup_id": [1], "family": ["cuda"]}
    store.append("rollups", pa.table(row | {"op": ["launch"], "count": [1]}))
    store.seal(timestamp_ns)


def test_rollups_are_kept_longer_than_rows(store, fill, container):
    store.replace("containers", container(1, "a"))
    fill(1, NOW_NS - 2 * DAY_NS)
    rollup(store, NOW_NS - 2 * DAY_NS)
    retention = Retention(store, RetentionLimits(keep_ns=DAY_NS, keep_rollups_ns=30 * DAY_NS))
    retention.step(NOW_NS)
    assert {s.table for s in store.segments} == {"containers", "rollups"}
    retention.step(NOW_NS + 28 * DAY_NS)
    assert {s.table for s in store.segments} == {"containers", "rollups"}
    retention.step(NOW_NS + 29 * DAY_NS)
    assert {s.table for s in store.segments} == {"containers"}


def test_rollups_go_last_when_there_are_too_many_bytes(store, fill):
    rollup(store, NOW_NS - DAY_NS)
    fill(3)
    Retention(store, RetentionLimits(max_bytes=store.segments[0].bytes)).step(NOW_NS)
    assert {s.table for s in store.segments} == {"rollups"}


def test_a_merged_segment_may_expire_before_it_is_shown(root, store, fill, compactor):
    fill(FILES_MERGED)
    compactor.step(NOW_NS)
    Retention(store, RetentionLimits(max_bytes=0)).step(NOW_NS)
    compactor.step(NOW_NS + GRACE_NS)
    assert store.segments == ()
    assert list((root / "cuda_events").rglob("*.parquet*")) == []


def test_containers_of_a_boot_go_with_the_last_row_that_may_name_them(store, fill, container):
    for boot, day in (("boot-1", -5), ("boot-2", -3), ("boot-3", -1)):
        began = NOW_NS + day * DAY_NS
        store.replace("containers", container(day, boot, boot), key=boot)
        fill(1, began)
        fill(1, began + DAY_NS)
    retention = Retention(store, RetentionLimits(keep_ns=2 * DAY_NS + DAY_NS // 2))

    def boots():
        retention.step(NOW_NS)
        return [s.key for s in store.segments if s.table == "containers"]

    assert boots() == ["boot-2", "boot-3"]


def loss(store, timestamp_ns):
    row = {"timestamp_ns": timestamp_ns, "family": "cuda", "cgroup_id": 1}
    counts = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
    store.append("losses", pa.Table.from_pylist([row | counts]))
    store.seal(timestamp_ns)


@pytest.fixture
def two_days(store, cuda_rows):
    """Two days, each one segment of rows and several of losses."""
    for start_ns in (NOW_NS, NOW_NS + DAY_NS):
        ends = (start_ns, start_ns + DAY_NS - 10**9)
        store.append("cuda_events", pa.concat_tables(cuda_rows(1, start_ns=ns) for ns in ends))
        store.seal(start_ns)
        for part in range(LOSSES):
            loss(store, start_ns + (part + 1) * DAY_NS // (LOSSES + 1))


def counted(store):
    return Counter(segment.table for segment in store.segments)


def test_losses_stay_as_long_as_any_row_that_they_tell_of(store, two_days):
    retention = Retention(store, RetentionLimits(keep_ns=7 * DAY_NS))
    retention.step(NOW_NS + 7 * DAY_NS + DAY_NS // 2)
    assert counted(store) == {"cuda_events": 2, "losses": 2 * LOSSES}
    retention.step(NOW_NS + 8 * DAY_NS + DAY_NS // 2)
    assert counted(store) == {"cuda_events": 1, "losses": LOSSES}
    retention.step(NOW_NS + 10 * DAY_NS)
    assert counted(store) == {}


def test_rows_go_before_their_losses_when_there_are_too_many_bytes(store, two_days):
    total = sum(s.bytes for s in store.segments)
    Retention(store, RetentionLimits(max_bytes=total - 1)).step(NOW_NS)
    assert counted(store) == {"cuda_events": 1, "losses": 2 * LOSSES}
    last = next(s.bytes for s in store.segments if s.table == "cuda_events")
    losses = [s.bytes for s in store.segments if s.table == "losses"][LOSSES:]
    Retention(store, RetentionLimits(max_bytes=last + sum(losses))).step(NOW_NS)
    assert counted(store) == {"cuda_events": 1, "losses": LOSSES}
