"""What a row of an answer is about: one wait once, one host's disk alone."""

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000


def answer(store, name):
    with Session(store.root) as session:
        return session.ask(find(name).render()).rows()


def test_a_wait_for_many_streams_is_one_wait(tmp_path):
    store = VirtualStore(tmp_path / "store")
    call = {"pid": 7, "result": 0, "gpu": "GPU-1", "duration_ns": 0}
    for stream in (5, 6, 7, 8):
        row = {"timestamp_ns": START_NS + stream, "op": "launch", "api": "cuLaunchKernel"}
        shape = dict.fromkeys(("grid_y", "grid_z", "block_x", "block_y", "block_z"), 1)
        row |= {"stream": stream, "kernel_name": f"k{stream}", "grid_x": stream, **shape}
        store.add("cuda_events", "train", call | row)
    row = {"timestamp_ns": START_NS + MS, "op": "sync", "api": "cuCtxSynchronize"}
    row |= {"kernel_name": "[sync]", "duration_ns": 10 * MS}
    store.add("cuda_events", "train", call | row)
    row = {"timestamp_ns": START_NS + 2 * MS, "op": "runqueue", "duration_ns": 3 * MS, "pid": 7}
    row |= {"cpu": 1, "peer_pid": 9, "peer_cgroup_id": store.tenant("batch")}
    store.add("host_events", "train", row | {"attribution": "task"})
    store.write()
    assert answer(store, "sync_stalls") == [
        {
            "tenant": "train",
            "api": "cuCtxSynchronize",
            "kernel_name": "k8",
            "waits": 1,
            "waited_ns": 10 * MS,
            "longest_ns": 10 * MS,
            "longest_at_ns": START_NS + MS,
            "cpu_wait_ns": 3 * MS,
            "operations": 4,
        }
    ]


def test_a_disk_of_one_host_is_not_the_disk_of_that_name_of_another(tmp_path):
    for node, first_id, alone, beside in (("node-a", 101, 2, 6), ("node-b", 201, 10, 20)):
        store = VirtualStore(tmp_path / "store", node, first_id)
        for tenant, at, took in (("train", 0, alone), ("train", 50, beside), ("dump", 51, 100)):
            row = {"timestamp_ns": START_NS + at * MS, "duration_ns": took * MS, "op": "read"}
            row |= {"device": "vda", "bytes": 4096, "attribution": "task", "sector": 1, "error": 0}
            store.add("io_events", tenant, row)
        store.write()
    rows = [row for row in answer(store, "io_delays") if row["tenant"].startswith("train@")]
    shown = ("node", "device", "requests_beside", "alone_ns", "beside_ns", "slowdown")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("node-b", "vda", 1, 10 * MS, 20 * MS, 2.0),
        ("node-a", "vda", 1, 2 * MS, 6 * MS, 3.0),
    ]
