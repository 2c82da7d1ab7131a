"""Rows that stand for others: each counts as often as its weight, and lasts as long as it did."""

import pytest

from cotenant.query.derived.interference.cause import Waits
from cotenant.query.engine.session import Session
from cotenant.query.findings.starved import find as find_starved
from cotenant.query.questions.loader import find
from cotenant.query.screens.summary import summary
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000


@pytest.fixture
def store(tmp_path):
    return VirtualStore(tmp_path / "store")


def call(store, op, at, took=0.0, *, tenant="train", **more):
    row = {"timestamp_ns": START_NS + int(at * MS), "duration_ns": int(took * MS), "pid": 7}
    row |= {"op": op, "api": f"cu_{op}", "result": 0, "gpu": "GPU-1", "stream": 5}
    store.add("cuda_events", tenant, row | {"kernel_name": f"[{op}]"} | more)


def wait(store, at, took, *, weight=1, tenant="train", peer="batch"):
    row = {"timestamp_ns": START_NS + int(at * MS), "duration_ns": int(took * MS), "pid": 7}
    row |= {"tid": 7, "op": "runqueue", "cpu": 1, "peer_pid": 9, "attribution": "task"}
    row |= {"peer_cgroup_id": store.tenant(peer), "weight": weight}
    store.add("host_events", tenant, row)


def segment(store, op, weight, at=0):
    row = {"timestamp_ns": START_NS + at * MS, "op": op, "weight": weight, "attribution": "socket"}
    row |= {"local_ip": "10.0.0.1", "local_port": 5_003}
    store.add("tcp_events", "train", row | {"remote_ip": "10.0.0.2", "remote_port": 80})


def answer(store, sql):
    with Session(store.write()) as session:
        return session.ask(sql).rows()


def test_the_summary_counts_every_event_that_a_row_stands_for(store):
    call(store, "launch", 1, kernel_name="seldom")
    call(store, "launch", 2, kernel_name="seldom")
    call(store, "launch", 3, kernel_name="often", weight=11)
    call(store, "memcpy", 4, bytes=100, weight=3)
    call(store, "sync", 5, 2, weight=5)
    row = {"timestamp_ns": START_NS, "op": "AllReduce", "api": "ncclAllReduce", "duration_ns": 1}
    store.add("nccl_events", "train", row | {"weight": 7})
    with Session(store.write()) as session:
        rows = summary(session).rows()
    assert rows == [
        {
            "tenant": "train",
            "container_id": "train",
            "launches": 13,
            "copied_bytes": 300,
            "waited_ns": 10 * MS,
            "nccl_calls": 7,
            "most_launched": "often",
        }
    ]


def test_device_time_of_a_span_is_the_span_however_many_rows_were_shed(store):
    shape = dict.fromkeys(("grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)
    call(store, "launch", 0, kernel_name="a", grid_x=30, weight=10, **shape)
    call(store, "launch", 1, kernel_name="b", grid_x=100, weight=1, **shape)
    call(store, "sync", 2, 6)
    rows = answer(store, "select kernel_name, launches, gpu_ns, mean_ns from kernel_times "
                  "order by kernel_name")  # fmt: skip
    assert [(row["kernel_name"], row["launches"]) for row in rows] == [("a", 10), ("b", 1)]
    assert sum(row["gpu_ns"] for row in rows) == 8 * MS
    assert all(row["gpu_ns"] == row["launches"] * row["mean_ns"] for row in rows)


def test_a_wait_for_a_cpu_lasts_as_long_as_it_did_and_counts_by_its_weight(store):
    wait(store, 0, 3)
    wait(store, 10, 2, weight=10)
    [row] = answer(store, find("who_stole_cpu").render())
    assert row == {
        "tenant": "train",
        "thief": "batch",
        "waits": 11,
        "waited_ns": 23 * MS,
        "ran_ns": None,
        "p99_ns": 3 * MS,
        "max_ns": 3 * MS,
        "worst_at_ns": START_NS,
    }


def test_starvation_adds_up_by_weight_and_names_the_longest_single_wait(store):
    for i in range(3):
        wait(store, 20 * i, 2, weight=7)
    wait(store, 90, 3)
    with Session(store.write()) as session:
        [found] = find_starved(lambda sql: session.ask(sql).table)
        times = Waits.of(lambda sql: session.ask(sql).table).times
    assert "in 22 waits (the longest 3 ms)" in found.evidence[0]
    assert times["train", "node-a"][1].tolist() == [14 * MS, 28 * MS, 42 * MS, 45 * MS]


def test_a_wait_that_ended_before_a_slow_call_was_not_in_it(store):
    wait(store, 0, 2, weight=100)
    call(store, "sync", 10, 20, tid=7)
    wait(store, 12, 3)
    segment(store, "retransmit", 13, at=15)
    [row] = answer(store, find("around_slow_call").render())
    assert (row["cpu_wait_ns"], row["cpu_thief"], row["retransmits"]) == (3 * MS, "batch", 13)


def test_retransmits_and_connections_count_by_weight(store):
    for op, weight in (("retransmit", 13), ("reset_sent", 5), ("reset_received", 3)):
        segment(store, op, weight)
    for op, weight in (("connect", 11), ("accept", 7)):
        row = {"op": op, "timestamp_ns": START_NS, "family": "tcp", "remote": "10.0.0.2:80"}
        store.add("net_events", "train", row | {"attribution": "task", "weight": weight})
    with Session(store.write()) as session:
        [lossy] = session.ask(find("retransmits").render()).rows()
        [peer] = session.ask(find("net_bytes").render()).rows()
    assert (lossy["retransmits"], lossy["resets_sent"], lossy["resets_received"]) == (13, 5, 3)
    assert (peer["connected"], peer["accepted"]) == (11, 7)
