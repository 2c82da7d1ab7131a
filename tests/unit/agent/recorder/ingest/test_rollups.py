"""Rollups against a sum by hand."""

import time
from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.rollups import Rollups

SECOND = 1_000_000_000
rows = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND - 1),
        st.sampled_from([5, 6]),
        st.sampled_from(["launch", "memcpy"]),
        st.sampled_from(["gemm", "softmax", None]),
        st.integers(0, 10**9),
        st.integers(0, 10**9),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=60,
)


def drained(rows):
    """A batch, and the rows that were made of it.

    What is not time, size or name makes the sort: a handle's name depends on the time.
    """
    sorts = {}
    codes = [sorts.setdefault((r[1], r[2]), len(sorts)) for r in rows]
    varying = {
        "timestamp_ns": np.array([r[0] for r in rows], np.uint64),
        "duration_ns": np.array([r[4] for r in rows], np.uint64),
        "bytes": np.array([r[5] for r in rows], np.uint64),
        "weight": np.array([r[6] for r in rows], np.uint32),
    }
    batch = Batch(len(rows), varying, np.array(codes, np.int32), np.zeros(len(sorts), "V8"))
    names = ("timestamp_ns", "cgroup_id", "op", "kernel_name", "duration_ns", "bytes", "weight")
    return batch, pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})


@given(rows)
def test_sums_are_those_of_the_rows(rows):
    expected = defaultdict(lambda: [0, 0, 0, 0])
    for when, cgroup, op, name, duration, size, weight in rows:
        sums = expected[when // SECOND * SECOND, cgroup, op, name]
        sums[0] += weight
        sums[1] += duration * weight
        sums[2] = max(sums[2], duration)
        sums[3] += size * weight
    rollups = Rollups()
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            rollups.add("cuda", *drained(part))
    made = rollups.sample(100 * SECOND).to_pylist()
    assert {
        (r["timestamp_ns"], r["cgroup_id"], r["op"], r["name"]): [
            r["count"],
            r["sum_ns"],
            r["max_ns"],
            r["bytes"],
        ]
        for r in made
    } == dict(expected)
    assert rollups.sample(100 * SECOND) is None


def test_a_second_is_told_when_it_is_over():
    rollups = Rollups()
    rollups.add("cuda", *drained([(5 * SECOND, 5, "launch", "gemm", 7, 0, 1)]))
    assert rollups.sample(7 * SECOND) is None
    assert rollups.sample(8 * SECOND).num_rows == 1


def test_a_call_that_began_long_ago_costs_no_more_than_another():
    rollups = Rollups()
    ages = [1, 10**9, 2 * 10**9]
    rollups.add("cuda", *drained([(n * SECOND, 5, "sync", None, 7, 0, 1) for n in ages]))
    rows = rollups.sample(3 * 10**9 * SECOND).to_pylist()
    assert sorted(row["timestamp_ns"] for row in rows) == [n * SECOND for n in ages]


def test_calls_that_began_in_as_many_seconds_as_there_are_cost_about_as_much_as_in_one():
    rows = 1009
    ratios = []
    for _ in range(3):
        took = []
        for apart in (0, SECOND):
            batch, made = drained([(at * apart, at, "sync", None, 7, 3, 1) for at in range(rows)])
            rollups = Rollups()
            began = time.perf_counter()
            rollups.add("cuda", batch, made)
            took.append(time.perf_counter() - began)
            assert rollups.sample(10**6 * SECOND).num_rows == rows
        ratios.append(took[1] / took[0])
    assert min(ratios) < 8
