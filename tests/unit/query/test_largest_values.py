"""The largest sizes, shapes and weights that a tenant can get into a store end no answer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.query.derived.registry import DERIVED
from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import explain
from cotenant.query.questions.loader import questions
from cotenant.query.screens.activity import collectives_sql, kernels_sql, tenants_sql
from cotenant.query.screens.counters import MEMORY, CounterCursor, since
from cotenant.query.screens.summary import summary
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

LARGEST = 2**63 - 1
SIZE = 2**46 - 1  # As bpf/common/thread.bpf.h lets it through.
WEIGHT = SHAPE = 2**31 - 1
MS = 1_000_000
END_NS = START_NS + 5_000 * MS
SHAPES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def fill(
    store: VirtualStore, tenant: str, size: int, shape: int, weight: int, largest: int
) -> None:
    """What a tenant's recorded calls and sums are, if it has such sizes and shapes."""
    call = {"pid": 7, "result": 0, "gpu": "GPU-1", "stream": 5, "weight": weight}
    for at in range(3):
        now = {"timestamp_ns": START_NS + at * 1_000 * MS, "duration_ns": MS}
        copy = {"op": "memcpy", "api": "cuMemcpyHtoDAsync_v2", "kernel_name": "[memcpy HtoD]"}
        store.add("cuda_events", tenant, call | now | copy | {"bytes": size, "direction": "HtoD"})
        launch = {"op": "launch", "api": "cuLaunchKernel", "kernel_name": "gemm", "gpu_ns": MS}
        shaped = dict.fromkeys(SHAPES, shape) | {"gpu_ns_source": "elapsed"}
        now["timestamp_ns"] += MS
        store.add("cuda_events", tenant, call | now | launch | shaped)
        now["timestamp_ns"] += MS
        wait = {"op": "sync", "api": "cuStreamSynchronize", "kernel_name": "[sync]"}
        store.add("cuda_events", tenant, call | now | wait)
        reduce = {"op": "AllReduce", "api": "ncclAllReduce", "pid": 7, "comm_hash": 3}
        store.add("nccl_events", tenant, now | reduce | {"bytes": size, "weight": weight})
        second = {"timestamp_ns": now["timestamp_ns"]}
        held = {"gpu": f"GPU-{at % 2}", "bytes": largest, "allocations": largest}
        store.add("gpu_memory", tenant, second | held)
        sums = {"count": 1, "sum_ns": MS, "max_ns": MS, "bytes": largest}
        rolled = {"family": "cuda", "op": "memcpy", "name": "[memcpy HtoD]"}
        store.add("rollups", tenant, second | rolled | sums)
        counted = {"family": "cuda", "function": "cuMemcpyHtoDAsync_v2", "histogram": [1]}
        store.add("totals", tenant, second | counted | sums)
        busy = {"queued_ns": MS, "overlapped_ns": 0, "unproven_ns": 0, "launches": 1, "waits": 1}
        busy |= {"gpu": "GPU-1", "waited_ns": MS, "copied_bytes": largest, "told_ns": END_NS}
        store.add("gpu_seconds", tenant, second | busy | {"memory_bytes": largest})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = VirtualStore(tmp_path_factory.mktemp("largest") / "store")
    fill(store, "neighbour", 13, 3, 1, 17)
    # Two cgroups of one tenant: what each holds is added up.
    for cgroup in ("one", "other"):
        fill(store, cgroup, SIZE, SHAPE, WEIGHT, LARGEST)
        store.tenant(cgroup, tenant="attacker")
    store.recording(0)
    store.complete("cuda", "nccl", "host", "io", "net", "tcp")
    written: Path = store.write()
    return written


@pytest.fixture
def session(root: Path) -> Iterator[Session]:
    with Session(root) as session:
        yield session


@pytest.mark.parametrize("name", sorted(questions()))
def test_every_question_is_answered(session: Session, name: str) -> None:
    session.ask(questions()[name].render())


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_every_derived_table_is_made(root: Path, name: str) -> None:
    with Session(root) as session:
        session.ask(f"select * from {name}")


def test_every_screen_is_filled(session: Session) -> None:
    for sql in (
        tenants_sql(START_NS, END_NS, gpu_use=True),
        kernels_sql(START_NS, END_NS),
        collectives_sql(START_NS, END_NS),
    ):
        assert {row["tenant"] for row in session.ask(sql).rows()} == {"attacker", "neighbour"}
    told = {row["tenant"]: row["copied_bytes"] for row in summary(session).rows()}
    assert told == {"attacker": LARGEST, "neighbour": 39}
    since(session, CounterCursor())
    session.ask(MEMORY)
    explain(session)


def test_a_neighbours_numbers_are_what_they_would_be_alone(session: Session) -> None:
    (copied,) = (
        row
        for row in session.ask(questions()["copies"].render()).rows()
        if row["tenant"] == "neighbour"
    )
    assert (copied["copies"], copied["total_bytes"]) == (3, 39)


def test_sizes_that_nobody_knows_stay_unknown(tmp_path: Path) -> None:
    store = VirtualStore(tmp_path / "store")
    copy = {"op": "memcpy", "api": "cuMemcpyAsync", "kernel_name": "[memcpy ?]", "weight": 1}
    store.add("cuda_events", "calm", copy | {"timestamp_ns": START_NS, "duration_ns": MS})
    store.recording(0)
    with Session(store.write()) as session:
        (copied,) = session.ask(questions()["copies"].render()).rows()
        assert (copied["copies"], copied["total_bytes"]) == (1, None)
        (tenant,) = session.ask(tenants_sql(START_NS, END_NS, gpu_use=True)).rows()
        assert tenant["copied_bytes"] is None
