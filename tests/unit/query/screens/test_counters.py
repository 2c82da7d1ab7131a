"""What `/metrics` counts."""

from cotenant.query.engine.session import Session
from cotenant.query.screens import counters
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore


def test_a_call_on_the_host_that_a_stream_queues_is_no_launch(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for function in ("cuLaunchKernelEx", "cuGraphLaunch", "cuLaunchHostFunc_ptsz", "cuMemAlloc_v2"):
        row = {"timestamp_ns": START_NS, "family": "cuda", "function": function, "count": 3}
        store.add("totals", "train", row | {"sum_ns": 1, "max_ns": 1, "histogram": [3]})
    with Session(store.write()) as session:
        news = counters.since(session, counters.CounterCursor())
    assert {row["function"]: row["launch"] for row in news.totals} == {
        "cuGraphLaunch": True,
        "cuLaunchHostFunc_ptsz": False,
        "cuLaunchKernelEx": True,
        "cuMemAlloc_v2": False,
    }
