"""Before and after: of windows that are not of the same length, too."""

from datetime import UTC, datetime

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
EVERY = 20_000_000
TOOK = 7_000


def _steady(root, longer_from=None):
    """Ten seconds of the same calls; from some time on they take twice as long."""
    store = VirtualStore(root)
    for at in range(0, 10 * SECOND + 1, EVERY):
        took = TOOK * (2 if longer_from is not None and at >= longer_from else 1)
        row = {"timestamp_ns": START_NS + at, "op": "launch", "api": "cuLaunchKernel"}
        row |= {"kernel_name": "gemm", "duration_ns": took, "result": 0, "stream": 1}
        store.add("cuda_events", "train", row)
    return store.write()


def _asked(root, at):
    moment = f"at={datetime.fromtimestamp((START_NS + at) // SECOND, UTC).isoformat()}"
    with Session(root) as session:
        (row,) = session.ask(find("compare_windows").render([moment])).rows()
    return row


@pytest.mark.parametrize("at", [2 * SECOND, 5 * SECOND, 9 * SECOND])
def test_a_steady_workload_has_no_change(tmp_path, at):
    row = _asked(_steady(tmp_path / "store"), at)
    assert row["calls_before"] + row["calls_after"] == 501
    assert abs(row["change_ns"]) <= 2 * TOOK * max(1, (10 * SECOND - at) / at)


@pytest.mark.parametrize("at", [3 * SECOND, 8 * SECOND])
def test_a_change_is_what_it_costs_after_it(tmp_path, at):
    row = _asked(_steady(tmp_path / "store", at), at)
    assert row["ratio"] == 2
    assert row["change_ns"] == pytest.approx(row["calls_after"] * TOOK, rel=0.02)
