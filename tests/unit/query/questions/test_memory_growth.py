"""Memory that grows: of GPUs, one by one, through calls that succeeded."""

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore


def test_what_is_not_freed_is_of_a_gpu_and_of_calls_that_succeeded(tmp_path):
    store = VirtualStore(tmp_path / "store")
    calls = [("GPU-1", "alloc", "cuMemAlloc_v2", 0)] * 5 + [
        ("GPU-1", "free", "cuMemFree_v2", 0)
    ] * 2
    calls += [("GPU-2", "alloc", "cudaMalloc", 0)] * 4 + [("GPU-2", "alloc", "cudaMalloc", 2)] * 3
    calls += [("GPU-1", "alloc", "cudaMallocHost", 0)] * 9 + [("GPU-2", "free", "cudaFree", 1)]
    for at, (gpu, op, api, result) in enumerate(calls):
        row = {"timestamp_ns": START_NS + at, "op": op, "api": api, "result": result, "gpu": gpu}
        row |= {"kernel_name": f"[{op}]", "duration_ns": 5_000, "bytes": 1 << 20}
        store.add("cuda_events", "train", row)
    for gpu in ("GPU-1", "GPU-2"):
        for at in range(2):
            row = {"timestamp_ns": START_NS + at, "gpu": gpu, "bytes": at << 20}
            store.add("gpu_memory", "train", row | {"allocations": 1})
    with Session(store.write()) as session:
        rows = session.ask(find("memory_growth").render()).rows()
    assert {(row["gpu"], row["unfreed"], row["through"]) for row in rows} == {
        ("GPU-1", 3, "cuMemAlloc_v2"),
        ("GPU-2", 4, "cudaMalloc"),
    }


def test_samples_at_one_moment_have_no_rate(tmp_path):
    store = VirtualStore(tmp_path / "store")
    row = {"timestamp_ns": START_NS, "gpu": "GPU-1", "bytes": 1 << 20, "allocations": 1}
    store.add("gpu_memory", "train", row)
    with Session(store.write()) as session:
        (row,) = session.ask(find("memory_growth").render()).rows()
    assert (row["held_bytes"], row["per_s_bytes"]) == (1 << 20, None)
