"""Lanes and tiles: every event once, in its own lane, at any zoom."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotenant.query.engine.session import Session
from cotenant.query.screens.timeline import status, tiles
from cotenant.query.screens.timeline.details import cell_sql
from cotenant.query.screens.timeline.lanes import LANES_PER_TENANT, Lanes
from cotenant.query.screens.timeline.queued import CELLS as QUEUED_CELLS
from cotenant.query.screens.timeline.queued import _covered, queued_cells
from cotenant.query.screens.timeline.tiles import CELLS, tile
from cotenant.store.writer import StoreWriter
from cotenant.views import text
from tests.serving import COLLECTIVES, LAUNCHES, NOW_NS, TENANTS, three_tenants


@pytest.fixture
def session(tmp_path):
    with Session(three_tenants(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def lanes(session):
    found = Lanes()
    found.look(session)
    return found


def counts(lanes, made):
    """Events by tenant, cells and slices together; CUDA only."""
    found = dict.fromkeys(TENANTS, 0)
    told = [*zip(made.cell_lane, made.cell_events, strict=True), *((lane, 1) for lane in made.lane)]
    for lane, events in told:
        if lanes.all[lane].family == "cuda":
            found[lanes.all[lane].tenant] += events
    return found


@pytest.mark.parametrize("cell_ns", [1 << 20, 1 << 22, 1 << 30, 1 << 40])
@pytest.mark.parametrize("raw_rows", [0, 7, 3_000])
def test_every_event_is_told_once_whatever_the_zoom(session, lanes, monkeypatch, cell_ns, raw_rows):
    monkeypatch.setattr(tiles, "RAW_ROWS", raw_rows)
    assert counts(lanes, tile(session, lanes, NOW_NS, cell_ns)) == LAUNCHES


def test_tiles_side_by_side_have_every_event_that_begins_in_them(session, lanes):
    width = CELLS << 17
    found = dict.fromkeys(TENANTS, 0)
    for start in range(NOW_NS, NOW_NS + 10**9, width):
        made = tile(session, lanes, start, 1 << 17)
        for lane, at in zip(made.lane, made.at_ns, strict=True):
            if lanes.all[lane].family == "cuda" and at >= 0:
                found[lanes.all[lane].tenant] += 1
    assert found == LAUNCHES


def test_a_call_that_began_before_the_tile_reaches_into_it(session, lanes):
    made = tile(session, lanes, NOW_NS + 500_000, 16)
    reaching = [
        (lanes.all[lane].family, at, length)
        for lane, at, length in zip(made.lane, made.at_ns, made.duration_ns, strict=True)
    ]
    assert reaching == [("nccl", -500_000, 1_000_003)]


def test_cells_add_up_to_the_time_inside_the_calls(session, lanes, monkeypatch):
    monkeypatch.setattr(tiles, "RAW_ROWS", 0)
    made = tile(session, lanes, NOW_NS, 1 << 30)
    busy = sum(made.cell_in_calls_ns) + sum(made.duration_ns)
    (row,) = session.ask(
        "SELECT sum(d) AS ns FROM (SELECT duration_ns AS d FROM cuda_events "
        "UNION ALL SELECT duration_ns FROM nccl_events "
        "UNION ALL SELECT duration_ns FROM host_events UNION ALL SELECT duration_ns FROM io_events)"
    ).rows()
    assert busy == row["ns"]


def test_wide_slices_are_never_hidden_in_cells(session, lanes, monkeypatch):
    monkeypatch.setattr(tiles, "RAW_ROWS", 0)
    made = tile(session, lanes, NOW_NS, 1 << 17)
    nccl = [
        length
        for lane, length in zip(made.lane, made.duration_ns, strict=True)
        if lanes.all[lane].family == "nccl"
    ]
    assert nccl == [1_000_003] * len(nccl)
    assert len(nccl) == 3  # Of 13, those that begin in the first 134 ms.


def test_a_tenant_with_many_streams_keeps_the_busiest_apart(tmp_path):
    streams = LANES_PER_TENANT + 5
    root = tmp_path / "store"
    who = {"cgroup_id": 7, "tenant": "many", "container_id": "many", "node": "n", "boot_id": "b"}
    rows = []
    for stream in range(1, streams + 1):
        call = {"pid": 1, "tid": 1, "cgroup_id": 7, "comm": "x", "op": "launch", "api": "f"}
        call |= {"kernel_name": "k", "duration_ns": 3, "weight": 1, "stream": stream}
        rows += [call | {"timestamp_ns": NOW_NS + i} for i in range(stream)]
    with StoreWriter(root, node="n", boot_id="b") as writer:
        writer.replace("containers", pa.Table.from_pylist([who]))
        writer.append("cuda_events", pa.Table.from_pylist(rows))
        writer.seal(NOW_NS)
    with Session(root) as session:
        lanes = Lanes()
        lanes.look(session)
        own = sorted(lane.stream for lane in lanes.all if not lane.shared)
        (shared,) = [lane for lane in lanes.all if lane.shared]
        rest = session.ask(cell_sql(shared, lanes.all, NOW_NS, NOW_NS + 10**9)).rows()
    assert own == list(range(6, streams + 1))
    assert [row["events"] for row in rest] == [1 + 2 + 3 + 4 + 5]


def test_what_a_lane_did_is_what_its_sql_says(session, lanes):
    (lane,) = [lane for lane in lanes.all if lane.family == "nccl"]
    (row,) = session.ask(cell_sql(lane, lanes.all, NOW_NS, NOW_NS + 10**9)).rows()
    assert (row["name"], row["events"]) == ("AllReduce", COLLECTIVES)


def test_work_in_flight_covers_part_of_each_cell(session):
    found = queued_cells(session, NOW_NS, NOW_NS + 10**9)
    assert all(len(parts) == QUEUED_CELLS for parts in found.values())
    assert all(0 <= part <= 1 for parts in found.values() for part in parts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(-50, 600), st.floats(0.001, 90)), max_size=20))
def test_coverage_is_exact_for_intervals_that_do_not_touch(gaps):
    import numpy as np

    intervals, at = [], -60.0
    for gap, length in gaps:
        at += abs(gap) % 40 + 0.01
        intervals.append((at, at + length))
        at += length
    starts = np.array([start for start, _ in intervals])
    ends = np.array([end for _, end in intervals])
    expected = [
        sum(max(0.0, min(end, cell + 1) - max(start, cell)) for start, end in intervals)
        for cell in range(QUEUED_CELLS)
    ]
    assert _covered(starts, ends) == pytest.approx(expected, abs=2e-3)


def test_what_lanes_lack_is_also_what_spans_and_memory_lack(tmp_path):
    root = three_tenants(tmp_path / "store")
    with Session(root) as session:
        (before,) = text.incompleteness(status.standing(session))
        hole = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
        hole |= {"timestamp_ns": NOW_NS, "from_ns": NOW_NS, "to_ns": NOW_NS + 10**9}
        (row,) = session.ask("SELECT min(cgroup_id) AS cgroup_id FROM cuda_events").rows()
        hole |= row | {"family": "cuda"}
        with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
            for reason in ("no room for spans", "no room for allocations"):
                writer.append("losses", pa.Table.from_pylist([hole | {"reason": reason}]))
            writer.seal(NOW_NS)
        lines = text.incompleteness(status.standing(session))
    assert [line.partition(" of ")[0] for line in lines] == [
        before.partition(" of ")[0],
        "incomplete: GPU memory",
        "incomplete: operations in spans",
    ]
