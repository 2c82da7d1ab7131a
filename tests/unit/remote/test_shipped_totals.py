"""Totals by the minute: the same whatever part of them the node has folded itself."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.remote.place import FarDirectory
from cotenant.store.folding import Folding
from cotenant.store.writer import StoreWriter
from tests.unit.remote.fleet import DAY_NS, NOW_NS, rows_in

LATER_NS = NOW_NS + DAY_NS
ADDED_UP = (
    "SELECT cgroup_id, family, function, sum(count)::BIGINT, sum(sum_ns)::BIGINT, max(max_ns), "
    "sum(bytes)::BIGINT, max(most_ns), max(most_bytes), sum(list_sum(histogram))::BIGINT, "
    "(SELECT min(first_ns) FROM totals), (SELECT max(timestamp_ns) FROM totals) "
    "FROM totals GROUP BY ALL ORDER BY ALL"
)


def fold(fleet):
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        assert Folding(writer, share=1.0).step(LATER_NS)


def added_up(store):
    with Session(store) as session:
        return session.ask(ADDED_UP).rows()


def test_minutes_are_made_of_seconds_or_of_minutes(fleet):
    fleet.record("node-a", 1, tables=("totals",))
    near = added_up(fleet.root)
    fleet.ship(now_ns=LATER_NS)
    assert added_up(fleet.far) == near
    assert rows_in(fleet.far, "totals") == []
    fold(fleet)
    assert fleet.ship(now_ns=LATER_NS) == 0
    other = fleet.far.with_name("other")
    fleet.ship(FarDirectory(other), now_ns=LATER_NS)
    assert rows_in(other, "total_minutes") == rows_in(fleet.far, "total_minutes")


def test_a_window_may_have_both(fleet):
    fleet.record("node-a", 1, tables=("totals",))
    fold(fleet)
    fleet.record("node-a", 2, tables=("totals",))
    assert rows_in(fleet.root, "totals")
    assert rows_in(fleet.root, "total_minutes")
    near = added_up(fleet.root)
    fleet.ship(now_ns=LATER_NS)
    assert added_up(fleet.far) == near


@pytest.mark.parametrize("rows", [1, 7])
def test_rows_are_folded_a_few_at_a_time(fleet, monkeypatch, rows):
    fleet.record("node-a", 1, tables=("totals",))
    fleet.ship(now_ns=LATER_NS)
    other = fleet.far.with_name("other")
    monkeypatch.setattr("cotenant.store.folding._ROWS", rows)
    fleet.ship(FarDirectory(other), now_ns=LATER_NS)
    assert rows_in(other, "total_minutes") == rows_in(fleet.far, "total_minutes")
