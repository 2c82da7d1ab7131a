"""Calls are counted from rows, or from what was added up meanwhile: the counts are the same."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.schema.folding import HOUR_NS, SECOND_NS
from cotenant.store.folding import Folding
from cotenant.store.retention import Retention, RetentionLimits
from cotenant.store.writer import StoreWriter
from tests.virtual.rings import OFFSET_NS, VirtualRecorder, call

MS = 1_000_000
BEGAN_NS = -(-OFFSET_NS // HOUR_NS) * HOUR_NS - OFFSET_NS  # With an hour.
CALLS = 127
OF_ROWS = """
SELECT kernel_name, sum(weight)::bigint AS calls, sum(duration_ns * weight)::bigint AS total_ns,
       max(duration_ns) AS longest_ns
  FROM cuda_events GROUP BY kernel_name ORDER BY ALL"""
COUNTED = "SELECT kernel_name, calls, total_ns, longest_ns FROM kernel_calls ORDER BY ALL"
READ = "SELECT count(*) AS n FROM cuda_events WHERE by_rows(node, timestamp_ns)"


def recorded(root, tenants=1):
    """Two hours with calls, 80 ms apart; of the next tenant each 2 ms later."""
    recorder = VirtualRecorder(root)
    for tenant in range(tenants):
        recorder.cgroup(100 + tenant, f"/tenant-{tenant}")
        recorder.opened(7 + tenant, "GPU-1")
    recorder.began(0)
    for hour in range(2):
        for number in range(tenants * CALLS):
            tenant = number % tenants
            at = BEGAN_NS + hour * HOUR_NS + number // tenants * 80 * MS + tenant * 2 * MS
            about = {"pid": 7 + tenant, "cgroup": 100 + tenant, "stream": 5}
            recorder.events.add(
                call("cuLaunchKernel", at, 3_000 + number, threads=64, weight=3, **about),
                call("cuStreamSynchronize", at + MS, 5 * MS, **about),
            )
        recorder.cycle(BEGAN_NS + hour * HOUR_NS + 20 * SECOND_NS)
        recorder.seal()
    recorder.finish()
    return recorder.root


@pytest.fixture
def root(tmp_path):
    """Of one tenant."""
    return recorded(tmp_path / "store")


def asked(root, sql, **window):
    with Session(root, **window) as session:
        return session.ask(sql).rows()


def test_without_a_window_no_row_is_read_and_the_counts_are_theirs(root):
    assert asked(root, READ) == [{"n": 0}]
    assert asked(root, COUNTED) == asked(root, OF_ROWS)
    launches = {row["launches"] for row in asked(root, find("top_kernels").render())}
    assert launches == {2 * CALLS, 2 * 3 * CALLS}


def test_a_window_of_an_hour_reads_rows(root):
    began = OFFSET_NS + BEGAN_NS + 1_500 * MS
    window = {"from_ns": began, "to_ns": began + 3 * SECOND_NS}
    assert asked(root, READ, **window)[0]["n"] > 0
    assert asked(root, COUNTED, **window) == asked(root, OF_ROWS, **window)


@pytest.mark.parametrize("cut_ms", [1_500, 4_321, 9_999, 3_605_123])
def test_halves_of_open_windows_add_up_to_the_whole(root, cut_ms):
    cut = OFFSET_NS + BEGAN_NS + cut_ms * MS
    counts = []
    for window in ({}, {"to_ns": cut}, {"from_ns": cut}):
        rows = asked(root, COUNTED, **window)
        counts.append({row["kernel_name"]: (row["calls"], row["total_ns"]) for row in rows})
    whole, before, after = counts
    for name, sums in whole.items():
        parts = zip(before.get(name, (0, 0)), after.get(name, (0, 0)), strict=True)
        assert tuple(map(sum, parts)) == sums


def test_launches_that_failed_are_no_launches(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(100, "/tenant-0")
    recorder.began(0)
    for number in range(CALLS):
        at = BEGAN_NS + number * MS
        result = 700 if number % 3 == 0 else 0
        recorder.events.add(call("cuLaunchKernel", at, 9, cgroup=100, threads=7, result=result))
    recorder.cycle(BEGAN_NS + 20 * SECOND_NS)
    recorder.finish()
    window = {"from_ns": OFFSET_NS + BEGAN_NS, "to_ns": OFFSET_NS + BEGAN_NS + SECOND_NS}
    done = CALLS - len(range(0, CALLS, 3))
    for of in ({}, window):
        (counted,) = asked(recorder.root, COUNTED, **of)
        (rate,) = asked(recorder.root, find("launch_rate").render(), **of)
        assert (counted["calls"], rate["launches"]) == (done, done)


def test_what_has_no_rollups_yet_is_read_from_rows(root):
    later = OFFSET_NS + BEGAN_NS + 3 * HOUR_NS
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        with Session(root) as session:
            rows = session.ask("SELECT * EXCLUDE (node) FROM cuda_events LIMIT 5").table
        times = [later + number for number in range(5)]
        store.append("cuda_events", rows.set_column(0, "timestamp_ns", [times]))
        store.seal(later)
    assert asked(root, READ) == [{"n": 5}]
    assert asked(root, COUNTED) == asked(root, OF_ROWS)


def test_what_has_no_rows_any_more_is_still_counted(root):
    before = asked(root, COUNTED)
    now = OFFSET_NS + BEGAN_NS + 9 * HOUR_NS
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        limits = RetentionLimits(keep_ns=HOUR_NS, keep_rollups_ns=100 * HOUR_NS)
        assert Retention(store, limits).step(now)
        folding = Folding(store, share=1e9)
        while folding.step(now):
            pass
    assert asked(root, OF_ROWS) == []
    assert asked(root, COUNTED) == before
    assert asked(root, COUNTED, from_ns=OFFSET_NS, to_ns=now) == before
    with Session(root) as session:
        interval = session.ask(COUNTED).interval
    assert interval is not None
    assert interval.start_ns == OFFSET_NS + BEGAN_NS


def test_time_queued_is_told_where_spans_are_not_kept(root):
    question = find("gpu_use").render()
    (before,) = asked(root, question)
    assert before["queued_ns"] > 0
    now = OFFSET_NS + BEGAN_NS + 3 * HOUR_NS
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        limits = RetentionLimits(keep_ns=2 * HOUR_NS, keep_rollups_ns=100 * HOUR_NS)
        assert Retention(store, limits).step(now)
    (after,) = asked(root, question)
    assert after["queued_ns"] == before["queued_ns"]
    assert after["time_ns"] >= HOUR_NS
    with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
        assert Retention(store, RetentionLimits(1, keep_rollups_ns=100 * HOUR_NS)).step(now)
    (after,) = asked(root, question)
    assert after["work_ns"] is None
    assert after["queued_ns"] == after["gpu_time_high_ns"] == before["queued_ns"]
    (used,) = asked(root, find("who_uses_what").render())
    assert used["gpu_queued_ns"] == before["queued_ns"]


def test_who_shares_a_gpu_is_told_where_spans_are_not_kept(tmp_path):
    root = recorded(tmp_path / "store", tenants=2)
    question = find("gpu_overlap").render()
    before = asked(root, question)
    # Each span of 6 ms begins 2 ms after the other's.
    assert [(row["tenant"], row["overlap_ns"], row["queued_ns"]) for row in before] == [
        (f"/tenant-{tenant}", 2 * CALLS * 4 * MS, 2 * CALLS * 6 * MS) for tenant in range(2)
    ]
    now = OFFSET_NS + BEGAN_NS + 3 * HOUR_NS
    for keep_ns in (2 * HOUR_NS, 1):
        with StoreWriter(root, node="node-a", boot_id="boot-1") as store:
            limits = RetentionLimits(keep_ns, keep_rollups_ns=100 * HOUR_NS)
            assert Retention(store, limits).step(now)
        assert asked(root, question) == before
        with Session(root) as session:
            interval = session.ask(question).interval
        assert interval is not None
        assert interval.start_ns == OFFSET_NS + BEGAN_NS
    assert asked(root, "FROM spans") == []
