"""Graphs: calls that are no rows by default are counted all the same, or not known."""

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MADE = ("instantiations", "captures", "making_ns")


def asked(store):
    with Session(store.write()) as session:
        return {r["tenant"]: r for r in session.ask(find("graph_recapture").render()).rows()}


def launched(store, tenant, times):
    for at in range(times):
        row = {"timestamp_ns": START_NS + at, "op": "graph_launch", "api": "cuGraphLaunch"}
        row |= {"duration_ns": 5_000, "kernel_name": "[graph]", "result": 0, "graph": "g1"}
        store.add("cuda_events", tenant, row)


def counted(store, tenant, **functions):
    for function, count in functions.items():
        row = {"timestamp_ns": START_NS, "family": "cuda", "function": function, "count": count}
        store.add("totals", tenant, row | {"sum_ns": 7 * count, "max_ns": 7, "histogram": [count]})


def test_captures_are_counted_where_they_are_no_rows(tmp_path):
    store = VirtualStore(tmp_path / "store")
    launched(store, "train", 63)
    counted(store, "train", cuGraphInstantiateWithFlags=21, cuStreamEndCapture_ptsz=21)
    # The driver's calls within these are counted themselves.
    counted(store, "train", cuGraphLaunch=63, cudaGraphInstantiate=21, cuLaunchKernel=5)
    (row,) = asked(store).values()
    assert tuple(row[name] for name in MADE) == (21, 21, 2 * 21 * 7)
    assert (row["graphs"], row["launches"], row["launching_ns"]) == (1, 63, 63 * 5_000)


def test_without_totals_they_are_not_known(tmp_path):
    store = VirtualStore(tmp_path / "store")
    launched(store, "train", 3)
    counted(store, "none", cuLaunchKernel=7)
    found = asked(store)
    assert list(found) == ["train"]
    assert tuple(found["train"][name] for name in MADE) == (None, None, None)
