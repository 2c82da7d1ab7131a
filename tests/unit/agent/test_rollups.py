"""Rollups against a sum by hand."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from cotenant.agent.rollups import Rollups

SECOND = 1_000_000_000
rows = st.lists(
    st.tuples(
        st.integers(0, 3 * SECOND - 1),
        st.sampled_from([5, 6]),
        st.sampled_from(["launch", "memcpy"]),
        st.sampled_from(["gemm", "softmax", "[memcpy HtoD]"]),
        st.none() | st.integers(0, 10**9),
        st.none() | st.integers(0, 10**9),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=60,
)


def table(rows):
    names = ("timestamp_ns", "cgroup_id", "op", "kernel_name", "duration_ns", "bytes", "weight")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    kinds = {"op": pa.string(), "kernel_name": pa.string(), "weight": pa.int32()}
    return pa.table(
        {name: pa.array(values, kinds.get(name, pa.int64())) for name, values in columns.items()}
    )


@given(rows)
def test_sums_are_those_of_the_rows(rows):
    expected = defaultdict(lambda: [0, 0, 0, 0])
    for when, cgroup, op, name, duration, size, weight in rows:
        sums = expected[when // SECOND * SECOND, cgroup, op, name]
        sums[0] += weight
        sums[1] += (duration or 0) * weight
        sums[2] = max(sums[2], duration or 0)
        sums[3] += (size or 0) * weight
    rollups = Rollups()
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            rollups.add("cuda", table(part))
    made = rollups.take(100 * SECOND).to_pylist()
    assert {(r["timestamp_ns"], r["cgroup_id"], r["op"], r["name"]): [
        r["count"], r["sum_ns"], r["max_ns"], r["bytes"]
    ] for r in made} == dict(expected)  # fmt: skip
    assert rollups.take(100 * SECOND) is None


def test_a_second_is_told_when_it_is_over():
    rollups = Rollups()
    rollups.add("cuda", table([(5 * SECOND, 5, "launch", "gemm", 7, None, 1)]))
    assert rollups.take(7 * SECOND) is None
    assert rollups.take(8 * SECOND).num_rows == 1
