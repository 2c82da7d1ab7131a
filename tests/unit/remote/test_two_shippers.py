"""Two shippers of one node at once, as after a rollout that left the old one running."""

import pytest

from cotenant.remote.near import NearNode
from cotenant.remote.place import FarDirectory
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import ALL_ROWS
from cotenant.store.manifest import current_segments
from cotenant.store.writer import StoreWriter
from tests.unit.remote.fleet import DAY_NS, MINUTE_NS, NOW_NS, all_rows, containers, session_row
from tests.unit.remote.test_ship import record_live

START = NOW_NS // (10 * MINUTE_NS) * 10 * MINUTE_NS


class Interrupted(FarDirectory):
    """Has the other shipper do a whole pass before one of the puts of this one."""

    def __init__(self, root, at, other):
        super().__init__(root)
        self._left, self._other = at, other

    def write(self, path, content, pace):
        self._left -= 1
        if self._left == 0:
            self._other()
        super().write(path, content, pace)


def _shipper(fleet, place):
    return Shipper(NearNode(fleet.root, "node-a"), place, ALL_ROWS)


@pytest.mark.parametrize("later_ns", [31 * MINUTE_NS, 2 * DAY_NS], ids=["windows", "folds"])
@pytest.mark.parametrize("put", range(1, 4))
def test_what_one_replaces_under_the_other_is_there_after_the_next_pass(fleet, put, later_ns):
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        writer.replace("containers", containers("node-a", [1]))
        writer.replace("sessions", session_row("node-a", START))
        record_live(writer, 1, 7, START, START + 10 * MINUTE_NS)
        other = _shipper(fleet, FarDirectory(fleet.far))
        other.ship(Closing(START + 11 * MINUTE_NS))

        passes = []

        def meanwhile():
            passes.append(put)
            record_live(writer, 3, 3, START, START + 10 * MINUTE_NS)
            other.ship(Closing(START + later_ns, at_rest=True))

        one = _shipper(fleet, Interrupted(fleet.far, put, meanwhile))
        writer.replace("containers", containers("node-a", [1, 2]))
        record_live(writer, 2, 5, START, START + 20 * MINUTE_NS)
        one.ship(Closing(START + 21 * MINUTE_NS))
        for _ in range(2):
            for shipper in (other, one):
                shipper.ship(Closing(START + later_ns, at_rest=True))
    assert passes == [put]
    for segment in current_segments(fleet.far):
        assert (fleet.far / segment.path).stat().st_size == segment.bytes
    assert all_rows(fleet.far) == all_rows(fleet.root)
    assert fleet.ship(tables=ALL_ROWS, now_ns=START + later_ns) == 0
