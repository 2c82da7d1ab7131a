"""GPU time and work of random tenants on one GPU, half of which seldom wait, against the truth."""

import os

import pytest

from cotenant.query.derived import device_spans
from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.quantities import shared

# Forty take a minute: COTENANT_SEEDS=40.
SEEDS = int(os.environ.get("COTENANT_SEEDS", "6"))
_EXACT = 1.002  # Virtual spans begin and end with the device: rounding decides which is longer.


def _ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(n) for n in range(len(values))]


def _correlation(one, other):
    squares = sum((a - b) ** 2 for a, b in zip(_ranks(one), _ranks(other), strict=True))
    return 1 - 6 * squares / (len(one) * (len(one) ** 2 - 1))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Of each host, the truth about its tenants and the rows of the answer."""
    found = []
    for seed in range(SEEDS):
        host = shared(tmp_path_factory.mktemp("host") / "store", seed)
        with Session(host.root) as session:
            rows = session.ask(find("gpu_use").render()).rows()
        found.append((host.tenants, rows))
    return found


def test_the_truth_is_within_the_bounds_of_gpu_time(hosts):
    for truth, rows in hosts:
        for row in rows:
            taken = truth[row["tenant"]].gpu_ns
            assert row["gpu_time_low_ns"] <= taken * _EXACT, row
            assert taken <= row["gpu_time_high_ns"] * _EXACT, row


def test_intervals_of_95_percent_hold_the_truth(hosts):
    held = {"gpu_time": [], "work": []}
    for truth, rows in hosts:
        for row in rows:
            true = truth[row["tenant"]]
            for name, value in (("gpu_time", true.gpu_ns), ("work", true.work_ns)):
                low, high = row[f"{name}_ci_low_ns"], row[f"{name}_ci_high_ns"]
                held[name].append(low <= value * _EXACT and value <= high * _EXACT)
    for name, each in held.items():
        print(f"{name}: {sum(each)} of {len(each)}")
        assert sum(each) >= 0.92 * len(each), name


def test_work_of_tenants_that_wait_is_right(hosts):
    for truth, rows in hosts:
        for row in rows:
            true = truth[row["tenant"]]
            if true.waits and true.work_ns > 1e8:
                assert row["work_ns"] == pytest.approx(true.work_ns, rel=0.04)
                assert row["gpu_time_ns"] == pytest.approx(true.gpu_ns, rel=0.02)


def test_tenants_are_in_the_order_of_their_work(hosts):
    found, queued = [], []
    for truth, rows in hosts:
        true = [truth[row["tenant"]].work_ns for row in rows]
        found.append(_correlation([-n for n in range(len(rows))], true))
        queued.append(_correlation([row["queued_ns"] for row in rows], true))
        large = [n for n, work in enumerate(true) if work > 1e9]
        small = [n for n, work in enumerate(true) if work < 1e7]
        assert max(large, default=-1) < min(small, default=len(rows))
    mean, of_queued = sum(found) / len(found), sum(queued) / len(queued)
    print(f"rank correlation: {mean:.3f}, of queued {of_queued:.3f}")
    assert mean >= 0.9
    assert mean > of_queued


def test_shares_and_what_is_idle_are_all_of_the_gpu(hosts):
    for truth, rows in hosts:
        assert sum(row["share"] for row in rows) + rows[0]["idle_share"] == pytest.approx(1)
        for row in rows:
            true = truth[row["tenant"]]
            if true.waits:
                assert row["share"] == pytest.approx(true.work_ns / row["time_ns"], abs=0.01)


def test_of_very_many_spans_a_part_says_nearly_the_same(hosts, tmp_path, monkeypatch):
    host = shared(tmp_path / "store", 5)
    sql = find("gpu_use").render()
    with Session(host.root) as session:
        every = {row["tenant"]: row for row in session.ask(sql).rows()}
    monkeypatch.setattr(device_spans, "_COUNT", "select 1200000 as spans")
    with Session(host.root) as session:
        part = {row["tenant"]: row for row in session.ask(sql).rows()}
    for tenant, row in part.items():
        assert row["gpu_time_low_ns"] == every[tenant]["gpu_time_low_ns"]
        assert row["gpu_time_high_ns"] == every[tenant]["gpu_time_high_ns"]
        if every[tenant]["work_ns"] > 1e9 and every[tenant]["source"] == "waits":
            assert row["work_ns"] == pytest.approx(every[tenant]["work_ns"], rel=0.05)
            assert row["share"] == pytest.approx(every[tenant]["share"], rel=0.05)
