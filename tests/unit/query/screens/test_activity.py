"""What each tenant does in a window: a call counts with the part of it that lies within."""

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.screens import activity

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
