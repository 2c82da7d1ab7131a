"""Cold starts: from where a process is known to have started, or not at all."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
pytestmark = pytest.mark.unbalanced("totals end long before the calls that they count")


@pytest.fixture
def host(tmp_path):
    """A cgroup that is made after 1 s; its processes launch from 4 s and 15 s on, each second."""
    store = VirtualStore(tmp_path / "store")
    store.tenant("train", created_ns=START_NS + SECOND)
    for pid, first in ((7, 4), (8, 15)):
        for at in range(first, 30):
            row = {"timestamp_ns": START_NS + at * SECOND, "duration_ns": 5_000, "pid": pid}
            row |= {"op": "launch", "api": "cuLaunchKernel", "result": 0, "kernel_name": "gemm"}
            store.add("cuda_events", "train", row)
    for at in range(1, 31):
        row = {"timestamp_ns": START_NS + at * SECOND, "family": "cuda", "seen": 1, "stored": 1}
        store.add("losses", "train", row | {"shed": 0, "lost": 0, "queued": 0})
    for at, function, took in ((3, "cuInit", 300), (4, "cuModuleLoadData", 70), (9, "cuInit", 1)):
        row = {"timestamp_ns": START_NS + at * SECOND, "family": "cuda", "function": function}
        row |= {"count": 1, "sum_ns": took, "max_ns": took, "sum_bytes": 0, "histogram": [1]}
        store.add("totals", "train", row)
    return store


def starts(store, **window):
    with Session(store.write(), **window) as session:
        rows = session.ask(find("cold_start").render()).rows()
    return [
        (r["pid"], r["until_first_launch_ns"], r["init_ns"], r["module_ns"], r["copy_ns"])
        for r in rows
    ]


def test_the_first_process_of_a_cgroup_begins_with_it(host):
    assert starts(host) == [(7, 3 * SECOND, 300, 70, None)]


def test_a_later_one_begins_where_its_program_did(host):
    row = {"timestamp_ns": START_NS + 13 * SECOND, "op": "exec", "pid": 8}
    host.add("host_events", "train", row | {"attribution": "task", "cpu": 0})
    assert [start[:2] for start in starts(host)] == [(7, 3 * SECOND), (8, 2 * SECOND)]


def test_a_rank_that_came_before_the_first_launch_began_with_the_cgroup(host):
    """Its birth is no row: nobody knew by then that the cgroup uses a GPU."""
    for at, op in ((3, "alloc"), (6, "launch")):
        row = {"timestamp_ns": START_NS + at * SECOND, "duration_ns": 5_000, "pid": 9, "op": op}
        row |= {"api": "cuCall", "result": 0, "kernel_name": "gemm"}
        host.add("cuda_events", "train", row)
    assert [start[:2] for start in starts(host)] == [(9, 5 * SECOND), (7, 3 * SECOND)]


def test_totals_of_a_sample_that_came_late_are_known(tmp_path):
    store = VirtualStore(tmp_path / "store")
    store.tenant("train", created_ns=START_NS + SECOND)
    row = {"timestamp_ns": START_NS + 4 * SECOND, "duration_ns": 5_000, "pid": 7, "result": 0}
    store.add("cuda_events", "train", row | {"op": "launch", "api": "l", "kernel_name": "gemm"})
    row = {"timestamp_ns": START_NS + SECOND, "family": "cuda", "seen": 1, "stored": 1}
    store.add("losses", "train", row | {"shed": 0, "lost": 0, "queued": 0})
    row = {"timestamp_ns": START_NS + 7 * SECOND, "family": "cuda", "function": "cuInit"}
    row |= {"count": 1, "sum_ns": 300, "max_ns": 300, "histogram": [1]}
    store.add("totals", "train", row)
    assert starts(store) == [(7, 3 * SECOND, 300, None, None)]


def test_what_started_before_the_time_that_is_asked_about_is_not_starting_in_it(host):
    assert starts(host, from_ns=START_NS + 20 * SECOND) == []


def test_what_two_processes_of_a_cgroup_took_together_is_not_known_of_one(host):
    for at, op in ((3, "alloc"), (6, "launch")):
        row = {"timestamp_ns": START_NS + at * SECOND, "duration_ns": 5_000, "pid": 9, "op": op}
        row |= {"api": "cuCall", "result": 0, "kernel_name": "gemm"}
        host.add("cuda_events", "train", row)
    assert [start[2:4] for start in starts(host)] == [(None, None), (None, None)]


def test_a_part_is_not_longer_than_the_start(host):
    row = {"timestamp_ns": START_NS + 4 * SECOND, "family": "cuda", "function": "cuCtxCreate_v2"}
    row |= {"count": 1, "sum_ns": 4 * SECOND, "max_ns": 7, "histogram": [1]}
    host.add("totals", "train", row)
    assert starts(host) == [(7, 3 * SECOND, None, None, None)]
