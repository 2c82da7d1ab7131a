"""The store as the page sees it, while it grows."""

import pyarrow as pa
import pytest

from cotenant.query.screens.timeline import lanes
from cotenant.store.writer import StoreWriter
from cotenant.views.web.reader import Reader
from tests.serving import NOW_NS, SECOND_NS, TENANTS, three_tenants


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A reader that surveyed a store of one row, in which then all the rest was written."""
    monkeypatch.setattr(lanes, "_LEAST_PAUSE_S", 3600.0)
    root = tmp_path / "store"
    with StoreWriter(root, node="n", boot_id="b") as writer:
        row = {"timestamp_ns": NOW_NS - SECOND_NS, "pid": 7, "tid": 7, "comm": "new", "weight": 1}
        row |= {"cgroup_id": 5, "op": "launch", "api": "cuLaunchKernel", "kernel_name": "first"}
        writer.append("cuda_events", pa.Table.from_pylist([row | {"duration_ns": 11}]))
        writer.seal(NOW_NS - SECOND_NS)
    opened = Reader(root, None)
    opened.look()
    three_tenants(root)
    return opened


def owners(reader: Reader) -> set[str]:
    made = reader.tile(NOW_NS - SECOND_NS, 1 << 22)
    return {reader.lanes.all[lane].tenant for lane in (*made.lane, *made.cell_lane)}


def test_a_tile_of_tenants_newer_than_the_survey_is_made_again_after_the_next(reader, monkeypatch):
    assert owners(reader) == {"unknown"}
    monkeypatch.setattr(reader._lanes, "_next_scan", 0.0)
    assert owners(reader) >= set(TENANTS)


def test_a_survey_that_found_what_the_last_one_did_makes_no_tile_again(reader, monkeypatch):
    monkeypatch.setattr(reader._lanes, "_next_scan", 0.0)
    first = reader.tile(NOW_NS, 1 << 20)
    number = reader.lanes.survey.number
    monkeypatch.setattr(reader._lanes, "_next_scan", 0.0)
    assert reader.tile(NOW_NS, 1 << 20) is first
    assert reader.lanes.survey.number == number == 2
