"""A far store notes of which times it has no rows: not those that it keeps and the node let go."""

import pytest

from cotenant.remote.plan import Closing
from cotenant.remote.shipped import ALL_ROWS
from cotenant.store.absence import EVER_NS, both, either, outside
from cotenant.store.manifest import manifest_path, read_manifest
from cotenant.store.retention import Retention, RetentionLimits
from cotenant.store.writer import StoreWriter
from tests.unit.remote.fleet import DAY_NS, MIDNIGHT_NS, MINUTE_NS, NOW_NS, TO_NS

LATER_NS = NOW_NS + DAY_NS


def absent(root, table="cuda_events"):
    return read_manifest(manifest_path(root, "node-a")).absent.get(table, ())


@pytest.fixture
def shrink(fleet):
    """The node lets go of all its rows."""

    def shrink():
        with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
            Retention(writer, RetentionLimits(keep_ns=1)).step(TO_NS + 10 * DAY_NS)

    return shrink


def test_what_was_sent_before_it_was_let_go_is_there(fleet, shrink):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS)
    shrink()
    ((first, last),) = absent(fleet.root)
    assert (first, last <= TO_NS) == (0, True)
    fleet.ship(tables=ALL_ROWS, now_ns=LATER_NS)
    assert absent(fleet.far) == ()


def test_what_was_let_go_before_it_was_sent_is_not(fleet, shrink):
    fleet.record("node-a", 1)
    shrink()
    fleet.ship(tables=ALL_ROWS)
    assert absent(fleet.far) == absent(fleet.root) != ()
    assert fleet.ship(tables=ALL_ROWS) == 0


def test_what_was_let_go_while_the_shipper_was_away_is_not(fleet, shrink):
    fleet.record("node-a", 1, to_ns=MIDNIGHT_NS)
    fleet.ship(tables=ALL_ROWS)
    fleet.record("node-a", 1, from_ns=MIDNIGHT_NS + MINUTE_NS)
    shrink()
    fleet.ship(tables=ALL_ROWS, now_ns=LATER_NS)
    ((start, end),) = absent(fleet.far)
    assert start <= MIDNIGHT_NS < end <= TO_NS


def test_days_that_are_not_kept_there_are_not(fleet):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS)
    assert absent(fleet.far) == ()
    (shipper,) = fleet.shippers(tables=ALL_ROWS)
    shipper.ship(Closing(NOW_NS, at_rest=True, keep_ns=MINUTE_NS * 60))
    assert absent(fleet.far) == ((0, MIDNIGHT_NS),)
    assert absent(fleet.far, "containers") == ()


def test_times_are_joined_and_compared():
    assert either(((5, 9), (1, 3)), ((3, 4), (8, 12))) == ((1, 4), (5, 12))
    assert either(((7, 7),), ()) == ()
    some, others = ((0, 4), (6, 20)), ((3, 7), (9, 10), (15, EVER_NS))
    met = ((3, 4), (6, 7), (9, 10), (15, 20))
    assert both(some, others) == both(others, some) == met
    assert both(some, ()) == both((), some) == ()
    assert outside(0, 5) == ((5, EVER_NS),)
    assert outside(3, 5) == ((0, 3), (5, EVER_NS))
