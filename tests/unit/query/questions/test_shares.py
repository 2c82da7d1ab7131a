"""One quantity has one share, whoever shows it; and a second has no more than its host can do."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.query.screens.activity import tenants_sql
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
MS = 1_000_000


def _total(store, tenant, at, function="oncpu", ns=0, family="host"):
    row = {"timestamp_ns": START_NS + at, "family": family, "function": function, "sum_ns": ns}
    store.add("totals", tenant, row | {"count": 1, "max_ns": 0, "histogram": [0], "bytes": 0})


def _asked(root, name, **window):
    with Session(root, **window) as session:
        return session.ask(find(name).render()).rows()


@pytest.fixture
def host(tmp_path):
    """Ten seconds, in which a tenant has work on one GPU for 2 s, from the third on."""
    store = VirtualStore(tmp_path / "store")
    store.recording(0, ended_ns=START_NS + 10 * SECOND)
    for second in range(1, 11):
        _total(store, "train", second * SECOND, ns=SECOND // 2)
    for at in range(20):
        began = START_NS + 3 * SECOND + at * 200 * MS
        call = {"timestamp_ns": began, "pid": 7, "op": "launch", "api": "cuLaunchKernel"}
        call |= {"kernel_name": "gemm", "duration_ns": 5_000, "result": 0, "stream": 5}
        store.add("cuda_events", "train", call | {"gpu": "GPU-1"})
        wait = call | {"timestamp_ns": began + 5_000, "op": "sync", "api": "cuStreamSynchronize"}
        wait |= {"kernel_name": "[sync]", "duration_ns": 100 * MS - 5_000}
        store.add("cuda_events", "train", wait | {"gpu": "GPU-1"})
    return store.write()


def test_time_queued_has_the_same_share_in_every_answer(host):
    (queued,) = _asked(host, "gpu_use")
    (used,) = _asked(host, "who_uses_what")
    with Session(host) as session:
        window = (START_NS, START_NS + 10 * SECOND)
        (shown,) = session.ask(tenants_sql(*window, gpu_use=True)).rows()
    assert (queued["queued_ns"], queued["time_ns"]) == (2 * SECOND, 10 * SECOND)
    assert queued["share"] == pytest.approx(0.2, abs=1e-4)
    assert used["gpu_percent"] == pytest.approx(20.0)
    assert shown["gpu_share"] == pytest.approx(0.2, abs=1e-4)
    assert shown["queued_share"] == pytest.approx(0.2)


def test_the_share_is_of_the_window_that_is_asked_about(host):
    window = {"from_ns": START_NS + 3 * SECOND, "to_ns": START_NS + 7 * SECOND}
    (queued,) = _asked(host, "gpu_use", **window)
    assert queued["queued_ns"] == 2 * SECOND
    assert queued["share"] == pytest.approx(2 / 4, abs=1e-3)


def test_a_second_has_no_more_than_the_cpus_of_its_host(tmp_path):
    """The last sample comes right after the one before, with all that threads had yet to tell."""
    store = VirtualStore(tmp_path / "store")
    store.recording(0, notes='{"cpus": 2}')
    for second in range(1, 6):
        _total(store, "train", second * SECOND, ns=SECOND)
    _total(store, "train", 5 * SECOND + 200 * MS, ns=680 * MS)
    _total(store, "train", 6 * SECOND, ns=2 * SECOND)
    (row,) = _asked(store.write(), "rightsize")
    assert row["cpus_peak"] <= 2
    assert row["cpus_p50"] == pytest.approx(1.0, abs=0.01)


def test_a_short_sample_at_the_end_is_of_the_second_before(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for second in range(1, 6):
        _total(store, "train", second * SECOND, ns=SECOND)
    _total(store, "train", 5 * SECOND + 200 * MS, ns=680 * MS)
    (row,) = _asked(store.write(), "rightsize")
    assert row["cpus_peak"] == pytest.approx(1.4)
