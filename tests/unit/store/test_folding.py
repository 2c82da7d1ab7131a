"""Seconds become minutes and hours: nothing is counted twice, and nothing is lost."""

import random
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.query.engine.session import Session
from cotenant.schema.folding import HOUR_NS, SECOND_NS
from cotenant.store.compaction import Compactor
from cotenant.store.folding import Folding
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.manifest import current_segments, walk
from cotenant.store.retention import Retention, RetentionLimits
from cotenant.store.writer import StoreWriter
from tests.virtual.killing import Killed, killed_before

DAY_NS = 24 * HOUR_NS
BEGAN_NS = 1_790_000_000_000_000_000 // DAY_NS * DAY_NS
SECONDS = 7 * 60 + 13  # Of each hour that has rows.
TENANTS = (11, 12, 13)
GPUS = ("GPU-0", None)

SUMS = {
    "rollups": "cgroup_id, family, op, name, sum(count)::bigint, sum(sum_ns)::bigint, max(max_ns), "
    "sum(bytes)::bigint",
    "gpu_seconds": "cgroup_id, gpu, sum(queued_ns)::bigint, sum(overlapped_ns)::bigint, "
    "sum(unproven_ns)::bigint, sum(launches)::bigint, sum(waits)::bigint, sum(waited_ns)::bigint, "
    "sum(copied_bytes)::bigint, max(memory_bytes), max(told_ns)",
    "gpu_overlaps": "cgroup_id, other_cgroup_id, gpu, sum(overlap_ns)::bigint",
    "totals": "cgroup_id, family, function, sum(count)::bigint, sum(sum_ns)::bigint, max(max_ns), "
    "sum(bytes)::bigint, sum(unmeasured)::bigint, max(most_ns), max(most_bytes), "
    "sum(histogram[1])::bigint, sum(histogram[3])::bigint",
}


def _rollup(at, rng):
    name = rng.choice(["gemm", "softmax", None])
    row = {"timestamp_ns": at, "cgroup_id": rng.choice(TENANTS), "family": "cuda", "op": "launch"}
    row |= {"name": name, "count": rng.randrange(1, 97), "bytes": rng.choice([None, 4096])}
    return row | {"sum_ns": rng.randrange(10**9), "max_ns": rng.randrange(10**6)}


def _gpu_second(at, rng):
    names = ("queued_ns", "overlapped_ns", "unproven_ns", "launches", "waits", "waited_ns")
    row = {name: rng.randrange(10**9) for name in (*names, "copied_bytes")}
    row |= {"timestamp_ns": at, "cgroup_id": rng.choice(TENANTS), "gpu": rng.choice(GPUS)}
    return row | {"memory_bytes": rng.choice([None, 1 << 30]), "told_ns": at + SECOND_NS}


def _overlap(at, rng):
    row = {"timestamp_ns": at, "cgroup_id": 11, "other_cgroup_id": rng.choice([12, 13])}
    return row | {"gpu": rng.choice(GPUS), "overlap_ns": rng.randrange(10**9)}


def _total(at, rng):
    row = {"timestamp_ns": at + SECOND_NS, "cgroup_id": rng.choice(TENANTS), "family": "io"}
    row |= {"function": rng.choice(["read", "write"]), "count": rng.randrange(97)}
    row |= {name: rng.randrange(10**9) for name in ("sum_ns", "max_ns")}
    row |= {"bytes": rng.choice([None, 4096]), "unmeasured": rng.choice([None, 3])}
    return row | {"histogram": [rng.randrange(9) for _ in range(rng.choice([3, 4]))]}


MAKERS = {
    "rollups": _rollup, "gpu_seconds": _gpu_second, "gpu_overlaps": _overlap, "totals": _total,
}  # fmt: skip


def fill(store, began_ns, seed=1, seconds=SECONDS):
    """Rows of some minutes, in two seals."""
    rng = random.Random(seed)
    for part in range(2):
        for table, maker in MAKERS.items():
            times = [began_ns + i * SECOND_NS for i in range(part, seconds, 2)]
            store.append(table, pa.Table.from_pylist([maker(at, rng) for at in times]))
        store.seal(began_ns)


def asked(root, by=""):
    """Every sum there is, by tenant and whatever else a table is about."""
    with Session(root) as session:
        answers = {
            table: session.ask(f"SELECT {by}{sql} FROM {table} GROUP BY ALL").rows()
            for table, sql in SUMS.items()
        }
    return {table: sorted(map(str, rows)) for table, rows in answers.items()}


WHOLE = ("count", "queued_ns", "overlap_ns")


def summed(files):
    """Of each column of ``WHOLE``, over files of whichever tables."""
    found = dict.fromkeys(WHOLE, 0)
    for file in files:
        rows = pq.ParquetFile(file).read()
        for column in found.keys() & set(rows.column_names):
            found[column] += pc.sum(rows.column(column)).as_py()
    return found


def in_folders(root):
    """What engines find that know nothing of a manifest."""
    return summed(root / s.path for s in walk(root))


def in_manifest(root):
    """What our readers find."""
    return summed(root / s.path for s in current_segments(root))


def fold_all(store, now_ns):
    folding = Folding(store, share=1e9)
    while folding.step(now_ns):
        pass


def lengths(root):
    with Session(root) as session:
        rows = session.ask("SELECT DISTINCT seconds FROM rollups ORDER BY ALL").rows()
        return [row["seconds"] for row in rows]


def test_rows_become_minutes_then_hours_and_every_sum_stays(root, store):
    fill(store, BEGAN_NS)
    fill(store, BEGAN_NS + 5 * HOUR_NS, seed=2)
    before, by_hour = asked(root), asked(root, f"timestamp_ns // {HOUR_NS} AS hour, ")
    folders = in_folders(root)
    for now_ns, shown in (
        (BEGAN_NS + 6 * HOUR_NS, [1]),
        (BEGAN_NS + 7 * HOUR_NS, [1, 60]),
        (BEGAN_NS + 12 * HOUR_NS, [60]),
        (BEGAN_NS + 9 * DAY_NS, [3600]),
    ):
        fold_all(store, now_ns)
        assert lengths(root) == shown
        assert asked(root) == before
        assert asked(root, f"timestamp_ns // {HOUR_NS} AS hour, ") == by_hour
        assert in_folders(root) == folders
        store.bury(now_ns + GRACE_NS)
        store.bury(now_ns + 2 * GRACE_NS)
        assert in_folders(root) == folders
    assert sum(s.rows for s in store.segments if s.table.endswith("_hours")) < 2 * 40


def test_minutes_begin_with_a_minute_and_have_one_row_each(root, store):
    fill(store, BEGAN_NS + 31 * SECOND_NS)
    fold_all(store, BEGAN_NS + 7 * HOUR_NS)
    with Session(root) as session:
        rows = session.ask("SELECT * FROM gpu_minutes").rows()
    assert {row["timestamp_ns"] % (60 * SECOND_NS) for row in rows} == {0}
    keys = [(row["timestamp_ns"], row["cgroup_id"], row["gpu"]) for row in rows]
    assert len(keys) == len(set(keys))


def test_what_is_told_late_adds_up(root, store):
    fill(store, BEGAN_NS)
    fold_all(store, BEGAN_NS + 7 * HOUR_NS)
    fill(store, BEGAN_NS + 60 * SECOND_NS, seed=5, seconds=3)
    before = asked(root)
    fold_all(store, BEGAN_NS + 8 * HOUR_NS)
    assert lengths(root) == [60]
    assert asked(root) == before


def test_merging_and_folding_do_not_disturb_each_other(root, store):
    fill(store, BEGAN_NS)
    before, folders = asked(root), in_folders(root)
    compactor, folding = Compactor(store, share=1e9), Folding(store, share=1e9)
    for now_ns in range(BEGAN_NS + 6 * HOUR_NS, BEGAN_NS + 10 * DAY_NS, 7 * HOUR_NS):
        compactor.step(now_ns)
        folding.step(now_ns)
        assert in_manifest(root) == in_folders(root) == folders
    assert lengths(root) == [3600]
    assert asked(root) == before


def test_hours_go_when_they_are_older_than_their_limit(root, store):
    fill(store, BEGAN_NS)
    now_ns = BEGAN_NS + 9 * DAY_NS
    fold_all(store, now_ns)
    retention = Retention(store, RetentionLimits(keep_ns=DAY_NS, keep_rollups_ns=30 * DAY_NS))
    assert not retention.step(BEGAN_NS + 30 * DAY_NS)
    retention.step(BEGAN_NS + 31 * DAY_NS)
    assert store.segments == ()


def test_killed_at_any_moment_nothing_is_lost_or_counted_twice(root, tmp_path, open_writer):
    """One step of folding and the removal of what it replaced, cut short before each call."""
    with open_writer() as store:
        fill(store, BEGAN_NS, seconds=67)
    before, folders = asked(root), in_folders(root)
    now_ns = BEGAN_NS + 7 * HOUR_NS
    ended, allowed = False, 0
    while not ended:
        place = tmp_path / f"killed-{allowed}"
        shutil.copytree(root, place)
        store = StoreWriter(place, node="node-a", boot_id="boot-1")
        try:
            with killed_before(allowed):
                Folding(store, share=1e9).step(now_ns)
                store.bury(now_ns + GRACE_NS)
                store.bury(now_ns + 2 * GRACE_NS)
                ended = True
        except Killed:
            allowed += 1
        store.close()
        assert in_manifest(place) == folders, allowed
        with StoreWriter(place, node="node-a", boot_id="boot-1") as again:
            assert in_manifest(place) == folders, allowed
            fold_all(again, now_ns)
            for later in (3, 4, 5):
                again.bury(now_ns + later * GRACE_NS)
        assert in_manifest(place) == in_folders(place) == folders, allowed
    assert allowed > 15
    assert lengths(place) == [60]
    assert asked(place) == before
