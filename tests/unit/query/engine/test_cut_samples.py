"""Samples that reach over an edge of a window count for the part in it."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.query.screens.activity import tenants_sql
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
# A busy host takes them late: of 1, 3, 2 and 4 seconds.
SAMPLED_S = (1, 4, 6, 10)
CPUS = 2


@pytest.fixture
def root(tmp_path):
    store = VirtualStore(tmp_path / "store")
    store.recording(0, ended_ns=START_NS + 10 * SECOND)
    for before, at in zip((0, *SAMPLED_S), SAMPLED_S, strict=False):
        row = {"timestamp_ns": START_NS + at * SECOND, "since_ns": START_NS + before * SECOND}
        row |= {"max_ns": 1, "histogram": [1], "bytes": 0, "count": 7}
        ran = {"family": "host", "function": "oncpu", "sum_ns": CPUS * (at - before) * SECOND}
        store.add("totals", "train", row | ran)
        read = {"family": "io", "function": "read", "sum_ns": 0, "bytes": (at - before) * 1003}
        store.add("totals", "train", row | read)
        waited = {"peer_cgroup_id": store.tenant("noisy"), "waited_ns": (at - before) * SECOND}
        times = {name: row[name] for name in ("timestamp_ns", "since_ns")}
        store.add("cpu_contention", "train", times | waited)
        store.add("totals", "noisy", row | ran)
    return store.write()


def _used(root, start_s=None, end_s=None):
    window = {"from_ns": start_s, "to_ns": end_s}
    window = {k: START_NS + round(v * SECOND) for k, v in window.items() if v is not None}
    with Session(root, **window) as session:
        rows = session.ask(find("who_uses_what").render()).rows()
        waits = session.ask("select sum(waited_ns)::bigint as ns from cpu_contention").rows()
    return next(row for row in rows if row["tenant"] == "train"), waits[0]["ns"]


@pytest.mark.parametrize("start", [0.5, 2, 4, 7.25])
@pytest.mark.parametrize("length", [0.5, 1.75, 2.5])
def test_no_window_has_more_of_a_cpu_than_there_was(root, start, length):
    row, waited = _used(root, start, start + length)
    assert row["cpus"] == pytest.approx(CPUS, rel=1e-3)
    assert waited == pytest.approx(length * SECOND)


@pytest.mark.parametrize("middle", [0.3, 3.7, 6, 9.99])
def test_two_halves_are_the_whole(root, middle):
    (first, one), (second, other) = _used(root, 0, middle), _used(root, middle, 10)
    whole, both = _used(root)
    assert first["disk_read_bytes"] + second["disk_read_bytes"] == whole["disk_read_bytes"]
    assert one + other == both


@pytest.mark.parametrize(("start", "end"), [(0.5, 1.5), (4.5, 9), (6.1, 6.2)])
def test_what_the_page_shows_is_cut_as_well(root, start, end):
    first, last = (START_NS + round(at * SECOND) for at in (start, end))
    for window in ({}, {"from_ns": first, "to_ns": last}):
        with Session(root, **window) as session:
            rows = session.ask(tenants_sql(first, last)).rows()
        (row,) = (row for row in rows if row["tenant"] == "train")
        assert row["cpu_ns"] == pytest.approx(CPUS * SECOND)
