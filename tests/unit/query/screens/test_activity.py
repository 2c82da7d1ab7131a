"""What each tenant does in a window: a call counts with the part of it that lies within."""

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.screens import activity, counters

NOW_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("start_s", "end_s", "share", "launches"),
    [
        (10.0, 13.0, 1.0, None),  # All of the wait.
        (11.0, 12.0, 1.0, None),  # Its middle.
        (12.5, 14.5, 0.25, None),  # Its end.
        (9.0, 11.0, 0.5, None),  # Its beginning.
        (0.0, 0.0001, 7.0, 7),  # Launches of several threads at once, each of a millisecond.
    ],
)
def test_of_a_call_only_what_lies_within_the_window_counts(
    recorded, start_s, end_s, share, launches
):
    at_ns = NOW_NS + 10 * SECOND_NS
    wait = {"timestamp_ns": at_ns, "pid": 11, "tid": 11, "cgroup_id": 11, "comm": "python"}
    wait |= {"op": "sync", "api": "cuCtxSynchronize", "kernel_name": "[sync]", "weight": 1}
    recorded.writer.append(
        "cuda_events", pa.Table.from_pylist([wait | {"duration_ns": 3 * SECOND_NS}])
    )
    recorded.seal()
    start, end = (NOW_NS + round(s * SECOND_NS) for s in (start_s, end_s))
    with Session(recorded.root) as session:
        [row] = [
            row
            for row in session.ask(activity.tenants_sql(start, end)).rows()
            if row["tenant"] == "train"
        ]
    assert row["cuda_ns"] / SECOND_NS == pytest.approx(share, rel=1e-3)
    rate = None if launches is None else pytest.approx(launches / (end_s - start_s))
    assert row["launches"] == rate


def held(recorded, *rows):
    """What the tenants hold, by the screen and by `/metrics`."""
    memory = [
        {"timestamp_ns": at_ns, "cgroup_id": cgroup_id, "gpu": gpu, "bytes": size}
        for at_ns, cgroup_id, gpu, size in rows
    ]
    recorded.sessions((NOW_NS - 9 * SECOND_NS, NOW_NS - 5 * SECOND_NS), (NOW_NS - 1, None))
    recorded.writer.append("gpu_memory", pa.Table.from_pylist(memory))
    recorded.seal()
    with Session(recorded.root) as session:
        shown = session.ask(activity.tenants_sql(NOW_NS, NOW_NS + SECOND_NS)).rows()
        scraped = session.ask(counters.MEMORY).rows()
    return (
        {row["tenant"]: row["gpu_bytes"] for row in shown},
        {(row["tenant"], row["gpu"]): row["bytes"] for row in scraped},
    )


def test_memory_of_which_a_part_is_unknown_is_unknown_and_not_less(recorded):
    shown, scraped = held(recorded, (NOW_NS, 11, "GPU-1", 2), (NOW_NS, 11, "GPU-2", None))
    assert shown["train"] is None
    assert scraped == {("train", "GPU-1"): 2, ("train", "GPU-2"): None}


def test_memory_that_an_earlier_recording_saw_is_not_held_now(recorded):
    shown, scraped = held(
        recorded, (NOW_NS - 7 * SECOND_NS, 11, "GPU-1", 5), (NOW_NS, 11, "GPU-2", 3)
    )
    assert shown["train"] == 3
    assert scraped == {("train", "GPU-2"): 3}
