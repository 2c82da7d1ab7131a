"""A window given by its times is not complete where its rows were let go, or never came."""

import os
from types import SimpleNamespace

import pyarrow as pa
import pytest

from cotenant.query.engine.answer import Interval
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.store.compaction import Compactor
from cotenant.store.retention import Retention, RetentionLimits
from cotenant.views import text
from cotenant.views.cli import main
from tests.unit.query.conftest import NOW_NS, SECOND_NS, Recorded

DAY_NS = 86_400 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
DAYS = 10
KEPT = RetentionLimits(keep_ns=4 * DAY_NS)
EDGE_NS = NOW_NS + 5 * DAY_NS + 10  # After the last row that is older.
START_NS = NOW_NS // (10 * MINUTE_NS) * 10 * MINUTE_NS  # Of a window of ten minutes.


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def days(tmp_path):
    """Ten days, each with ten launches and their rollup."""
    store = Recorded(tmp_path / "store")
    store.containers()
    store.sessions((NOW_NS - SECOND_NS, NOW_NS + DAYS * DAY_NS))
    rollup = {"cgroup_id": 11, "family": "cuda", "op": "launch", "name": "gemm", "count": 10}
    for day in range(DAYS):
        at_ns = NOW_NS + day * DAY_NS
        store.launches(11, 10, at_ns=at_ns)
        store.losses(11, seen=10, at_ns=at_ns)
        store.writer.append("rollups", pa.Table.from_pylist([rollup | {"timestamp_ns": at_ns}]))
        store.seal()
    yield store
    store.writer.close()


def let_go(store, limits=KEPT):
    assert Retention(store.writer, limits).step(NOW_NS + DAYS * DAY_NS)


def lacks(store, tables=("cuda_events",), *, throughout=True, **window):
    with Session(store.root, limits=QueryLimits(throughout=throughout), **window) as session:
        standing = session.standing(tables)
    # How complete older rollups are, nobody knows; that is told of them anyway.
    holes = [hole for hole in standing.holes if hole.reason != "losses no longer kept"]
    assert {hole.reason for hole in holes} <= {"rows not kept here"}
    return [hole.interval for hole in holes]


def around(first, last):
    return {"from_ns": NOW_NS + first * DAY_NS, "to_ns": NOW_NS + last * DAY_NS}


def test_rows_that_were_let_go_are_missing(days):
    assert lacks(days, **around(2, 9)) == []
    let_go(days)
    assert lacks(days, **around(2, 9)) == [Interval(NOW_NS + 2 * DAY_NS, EDGE_NS)]
    gone = Interval(NOW_NS + 2 * DAY_NS, NOW_NS + 4 * DAY_NS)
    assert lacks(days, **around(2, 4)) == [gone]
    assert lacks(days, tenant="train", **around(2, 4)) == [gone]
    # The recording had not begun before.
    (hole,) = lacks(days, from_ns=NOW_NS - 2 * SECOND_NS, to_ns=NOW_NS + DAY_NS)
    assert hole.start_ns == NOW_NS - SECOND_NS


def test_they_are_missing_in_words(days):
    let_go(days)
    with Session(days.root, limits=QueryLimits(throughout=True), **around(2, 4)) as session:
        assert text.incompleteness(session.standing(["cuda_events"])) == [
            "incomplete: rows not kept here for 172,800 s from 2026-09-23 14:13:20.000 UTC"
        ]


def test_what_is_kept_lacks_nothing(days):
    let_go(days)
    assert lacks(days, from_ns=EDGE_NS, to_ns=NOW_NS + 9 * DAY_NS) == []
    assert lacks(days, from_ns=EDGE_NS) == []
    # As much as there is.
    assert lacks(days) == []
    assert lacks(days, to_ns=NOW_NS + 9 * DAY_NS) == []
    assert lacks(days, throughout=False, **around(2, 9)) == []
    assert lacks(days, ("containers", "losses", "limits"), **around(2, 9)) == []


def test_rows_that_were_too_many_bytes_are_missing(days):
    size = sum(segment.bytes for segment in days.writer.segments)
    let_go(days, RetentionLimits(max_bytes=size * 3 // 4))
    (hole,) = lacks(days, **around(0, 9))
    with Session(days.root) as session:
        (row,) = session.ask("SELECT min(timestamp_ns) AS first_ns FROM cuda_events").rows()
    assert hole.start_ns < hole.end_ns <= row["first_ns"]


def test_what_rollups_answer_for_is_not_missing(days):
    let_go(days)
    assert lacks(days, ("kernel_calls",), **around(2, 9)) == []
    assert lacks(days, ("kernel_calls", "kernel_times"), **around(2, 9)) == []
    assert lacks(days, ("rollups",), **around(2, 9)) == []
    assert lacks(days, ("kernel_calls", "cuda_events"), **around(2, 9)) != []
    let_go(days, RetentionLimits(keep_ns=4 * DAY_NS, keep_rollups_ns=6 * DAY_NS))
    until = Interval(NOW_NS + 2 * DAY_NS, NOW_NS + 3 * DAY_NS + 1)
    assert lacks(days, ("kernel_calls",), **around(2, 9)) == [until]
    assert lacks(days, ("rollups",), **around(2, 9)) == [until]


def test_calls_are_counted_from_rollups_where_rows_were_let_go_in_part(days):
    count = "SELECT sum(calls)::BIGINT AS calls FROM kernel_calls"
    # A file of another table that reaches back to the first day.
    days.all_reduces(11, 1)
    days.all_reduces(11, 1, at_ns=NOW_NS + 9 * DAY_NS)
    days.seal()
    let_go(days)
    for window, calls in ((around(2, 9), 70), (around(2, 2 + 1 / 24), 10), (around(8, 9), 10)):
        bounds = {name: int(at_ns) for name, at_ns in window.items()}
        with Session(days.root, **bounds) as session:
            assert session.ask(count).rows() == [{"calls": calls}]


def test_a_recording_in_which_nothing_happened_lacks_nothing(tmp_path):
    store = Recorded(tmp_path / "store")
    store.containers()
    store.sessions((NOW_NS, NOW_NS + DAYS * DAY_NS))
    store.launches(11, 10, at_ns=NOW_NS + 9 * DAY_NS)
    store.seal()
    with store.writer:
        assert not Retention(store.writer, KEPT).step(NOW_NS + DAYS * DAY_NS)
        assert lacks(store, **around(0, 10)) == []


def test_merging_lets_nothing_go(days):
    before = len(days.writer.segments)
    assert Compactor(days.writer, share=1).step(NOW_NS + 20 * DAY_NS)
    assert len(days.writer.segments) < before
    assert lacks(days, **around(0, 9)) == []


def test_what_was_let_go_stays_so(days):
    let_go(days)
    days.launches(11, 10, at_ns=NOW_NS + DAYS * DAY_NS - 1)
    days.seal()
    assert len(lacks(days, **around(2, 9))) == 1


def pull(store, into, first, last):
    times = ["--from", str(START_NS + first * MINUTE_NS), "--to", str(START_NS + last * MINUTE_NS)]
    words = ["--node", "node-a", "--store", str(store), "--into", str(into)]
    assert main(["pull", *words, *times]) == 0


def minutes(*times):
    return [Interval(*(START_NS + each * MINUTE_NS for each in pair)) for pair in times]


def test_what_was_never_pulled_is_missing(tmp_path):
    near = Recorded(tmp_path / "near")
    near.containers()
    near.sessions((START_NS, START_NS + 120 * MINUTE_NS))
    near.launches(11, 10, at_ns=START_NS + 45 * MINUTE_NS)
    near.losses(11, seen=10, at_ns=START_NS + 45 * MINUTE_NS)
    near.seal()
    near.writer.close()
    case = SimpleNamespace(root=tmp_path / "case")
    pull(near.root, case.root, 40, 60)

    def found(first, last, **more):
        window = {"from_ns": START_NS + first * MINUTE_NS, "to_ns": START_NS + last * MINUTE_NS}
        return lacks(case, **window, **more)

    assert found(40, 60) == []
    assert lacks(case) == []
    assert found(30, 50) == minutes((30, 40))
    assert found(50, 115) == minutes((60, 115))
    assert found(60, 120) == minutes((60, 120))
    assert found(0, 30, tables=("kernel_calls",)) == minutes((0, 30))
    pull(near.root, case.root, 60, 80)
    assert found(40, 80) == []
    assert found(30, 115) == minutes((30, 115))
    pull(near.root, case.root, 100, 110)
    assert found(50, 105) == minutes((80, 100))
    assert found(101, 109) == []
