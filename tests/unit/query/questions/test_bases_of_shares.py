"""The base of a share is the window, cut with what was recorded, whatever work there was."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000
SECOND = 1_000 * MS
BREAK = 86_400 * SECOND


def span(store, tenant, start, end, pid=7):
    """Work of a tenant from then to then."""
    row = {"pid": pid, "op": "launch", "api": "cuLaunchKernel", "kernel_name": "gemm"}
    row |= {"result": 0, "stream": 5, "gpu": "GPU-1"}
    store.add("cuda_events", tenant, row | {"timestamp_ns": START_NS + start, "duration_ns": 5_000})
    row |= {"op": "sync", "api": "cuStreamSynchronize", "kernel_name": "[sync]"}
    began = start + 10_000
    store.add(
        "cuda_events", tenant, row | {"timestamp_ns": START_NS + began, "duration_ns": end - began}
    )


@pytest.fixture
def host(tmp_path):
    """Ten seconds, and a day later five more; one of two tenants begins late."""
    store = VirtualStore(tmp_path / "store")
    store.recording(0, ended_ns=START_NS + 10 * SECOND)
    store.recording(BREAK, ended_ns=START_NS + BREAK + 5 * SECOND)
    for start in (SECOND, 5 * SECOND, BREAK):
        span(store, "train", start, start + 4 * SECOND)
    span(store, "late", 7 * SECOND, 8 * SECOND, pid=8)
    store.complete("cuda")
    return store.write()


def asked(root, name, **window):
    with Session(root, **window) as session:
        return {row["tenant"]: row for row in session.ask(find(name).render()).rows()}


def within(start, end):
    return {"from_ns": START_NS + start, "to_ns": START_NS + end}


def test_the_time_between_two_recordings_is_no_base(host):
    rows = asked(host, "gpu_use")
    assert {row["time_ns"] for row in rows.values()} == {15 * SECOND}
    assert rows["train"]["queued_ns"] == 12 * SECOND


def test_the_base_is_the_same_for_one_tenant_alone(host):
    for window in ({}, within(SECOND, 8 * SECOND)):
        everything = asked(host, "gpu_use", **window)
        for tenant in ("train", "late"):
            assert asked(host, "gpu_use", tenant=tenant, **window)[tenant] == everything[tenant]


def test_a_span_beyond_the_window_neither_stretches_it_nor_is_left_out(host):
    (train,) = asked(host, "gpu_use", **within(2 * SECOND, 7 * SECOND)).values()
    # Of its spans of 1 to 5 s and 5 to 9 s.
    assert (train["queued_ns"], train["time_ns"]) == (5 * SECOND, 5 * SECOND)


@pytest.mark.parametrize("cut", [1, 2_345, 5_000, 7_500, 9_999])
def test_halves_of_time_queued_and_of_overlap_add_up(host, cut):
    for name, column in (("gpu_use", "queued_ns"), ("gpu_overlap", "overlap_ns")):
        whole = asked(host, name)
        halves = [
            asked(host, name, **window)
            for window in ({"to_ns": START_NS + cut * MS}, {"from_ns": START_NS + cut * MS})
        ]
        for tenant, row in whole.items():
            parts = sum(half[tenant][column] for half in halves if tenant in half)
            assert parts == row[column], (name, tenant)
