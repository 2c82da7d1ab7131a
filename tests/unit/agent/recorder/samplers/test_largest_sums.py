"""Sums of what tenants choose: larger than a column can hold, they end no recording."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns.owner import owners
from cotenant.agent.recorder.ingest.rollups import Rollups
from cotenant.agent.recorder.ingest.spans import SECOND as SECOND_ENTRY
from cotenant.agent.recorder.samplers import totals
from cotenant.agent.recorder.samplers.cpu_contention import CpuContention
from cotenant.agent.recorder.samplers.gpu_memory import GpuMemory
from cotenant.agent.recorder.samplers.gpu_seconds import GpuSeconds
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.agent.recorder.samplers.losses import Losses
from cotenant.agent.recorder.samplers.not_recorded import NotRecorded
from cotenant.agent.recorder.samplers.totals import Totals
from cotenant.identity.ledger import Ledger
from cotenant.probes.kernel import kernel_function
from cotenant.probes.tables import FUNCTIONS, RUNTIME_CALLS
from cotenant.query.engine.session import Session
from cotenant.schema import TABLES, Table
from cotenant.schema.holes import NO_SPAN
from cotenant.schema.layouts import (
    CONTENTION,
    CONTENTION_KEY,
    HOLDING,
    HOLDING_KEY,
    TOTAL,
    TOTAL_KEY,
)
from cotenant.store.segment import rows_of
from tests.virtual.rings import VirtualRecorder, call

LARGEST = 2**63 - 1
LARGEST_SIZE = 2**46 - 1  # As bpf/common/thread.bpf.h lets it through.
LARGEST_WEIGHT = 2**31 - 1
SECOND = 1_000_000_000


class OneTenant:
    """A ledger to which every cgroup is the same tenant's."""

    def translate(self, ids: Any, _: Any) -> Any:
        return np.full(len(ids), 5, np.int64)


def entries(keys: Any, values: Any) -> SimpleNamespace:
    """A map of the kernel."""
    return SimpleNamespace(
        items=lambda: (keys.tobytes(), values.tobytes()), read=lambda: None, delete=lambda _: None
    )


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger("node", "boot")
    ledger.born(0, 23, "/a", 1)
    return ledger


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_number_that_fits_no_column_is_the_largest_that_does(table: Table) -> None:
    integers = {c.name: c.type for c in table.columns if c.type.startswith("int")}
    others = {"string": "", "bool": False, "list<int64>": [], "float64": 0.0, "double": 0.0}
    row = {c.name: others.get(c.type) for c in table.columns}
    (most,) = rows_of(table, [row | dict.fromkeys(integers, 1 << 70)]).to_pylist()
    (least,) = rows_of(table, [row | dict.fromkeys(integers, -(1 << 70))]).to_pylist()
    for name, kind in integers.items():
        bounds = np.iinfo(kind)
        assert (least[name], most[name]) == (bounds.min, bounds.max)


def test_what_is_no_number_is_refused_all_the_same() -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, TypeError)):
        rows_of(TABLES["rollups"], [{"count": "many", "bytes": 1 << 70}])


def test_a_rollup_of_every_tenant_outlives_sizes_that_no_sum_can_hold() -> None:
    rows = 211
    varying = {
        "timestamp_ns": np.zeros(rows, np.uint64),
        "duration_ns": np.full(rows, LARGEST, np.uint64),
        "bytes": np.full(rows, 2**56 - 1, np.uint64),
        "weight": np.full(rows, LARGEST_WEIGHT, np.uint32),
    }
    codes = np.repeat([0, 1], [rows - 1, 1]).astype(np.int32)
    told = {
        "timestamp_ns": np.zeros(rows, np.int64),
        "cgroup_id": np.where(codes, 6, 5),
        "op": ["memcpy"] * rows,
        "kernel_name": pa.nulls(rows, pa.string()),
    }
    varying["duration_ns"][-1], varying["bytes"][-1] = 3, 5
    varying["weight"][-1] = 7
    rollups = Rollups()
    rollups.add("cuda", Batch(rows, varying, codes, np.zeros(2, "V8")), pa.table(told))
    attacker, neighbour = rollups.sample(10 * SECOND).to_pylist()
    sums = ("cgroup_id", "count", "sum_ns", "max_ns", "bytes")
    assert [attacker[name] for name in sums] == [
        5, (rows - 1) * LARGEST_WEIGHT, LARGEST, LARGEST, LARGEST,
    ]  # fmt: skip
    assert [neighbour[name] for name in sums] == [6, 7, 21, 3, 35]


def test_memory_of_many_contexts_is_no_more_than_a_column_can_hold() -> None:
    keys, values = np.zeros(3, HOLDING_KEY), np.zeros(3, HOLDING)
    keys["pid"], keys["context"] = 7, [1, 2, 3]
    values["bytes"], values["allocations"], values["tenant"] = LARGEST, LARGEST, 5
    nothing = SimpleNamespace(items=lambda: (b"", b""))
    held = entries(keys, values)
    maps: Any = {"holdings": held, "sweep": held, "usage": nothing, "freed": nothing}
    ledger: Any = OneTenant()
    devices: Any = SimpleNamespace(gpu=lambda *_: None)
    memory = GpuMemory(maps, ledger, devices, 0, WallClock())
    memory.look()
    (row,) = memory.sample(1).to_pylist()
    assert (row["bytes"], row["allocations"]) == (LARGEST, LARGEST)


def test_seconds_of_all_cgroups_of_a_tenant_are_no_more_than_a_column_can_hold(
    ledger: Ledger,
) -> None:
    seconds = np.zeros(3, SECOND_ENTRY)
    summed = ("launches", "waits", "waited_ns", "copied_bytes")
    for name in summed:
        seconds[name] = LARGEST
    maker: Any = SimpleNamespace(
        take_seconds=lambda: seconds, gpus=SimpleNamespace(words=["GPU-0"])
    )
    spans: Any = SimpleNamespace(closed=None)
    held = {(0, "GPU-0"): 2 * LARGEST}
    sampler = GpuSeconds(maker, spans, NotRecorded(Rollups(), list), ledger, lambda: held)
    (row,) = (sampler.sample(1) or pa.table({})).to_pylist()
    assert [row[name] for name in (*summed, "memory_bytes")] == [LARGEST] * 5


def test_a_total_that_exceeds_its_column_is_the_largest_and_not_negative(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "possible_cpus", lambda: 2)
    key, value = np.zeros(1, TOTAL_KEY), np.zeros(2, TOTAL)
    key["cgroup_id"] = 23
    key["function"] = next(f.id for f in FUNCTIONS if f.symbol == "cuLaunchKernel")
    summed = ("count", "sum_ns", "bytes")
    value["count"] = 1
    for name in ("sum_ns", "bytes", "max_ns"):
        value[name][0] = 2**63 + 11
    maps: Any = {"totals": entries(key, value), "spare_totals": entries(key[:0], value[:0])}
    losses = Losses(partial(owners, ledger))
    sampler = Totals(maps, ledger, losses, lambda: 0, lambda *_: None)
    (row,) = sampler.sample(1).to_pylist()
    assert [row[name] for name in (*summed, "max_ns")] == [2, LARGEST, LARGEST, LARGEST]
    # What is added next is told as it is.
    value["count"][0] += 1
    value["bytes"][0] += 13
    (row,) = sampler.sample(2).to_pylist()
    assert [row[name] for name in summed] == [1, 0, 13]


def test_time_on_a_cpu_before_the_recording_is_not_of_it_and_samples_end_when_they_are_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "possible_cpus", lambda: 2)
    monkeypatch.setattr(totals, "time_ns", lambda: 53)
    numbers = [kernel_function("host", "oncpu"), kernel_function("io", "read")]
    key, value = np.zeros(2, TOTAL_KEY), np.zeros((2, 2), TOTAL)
    key["cgroup_id"], key["function"] = 23, numbers
    value["count"], value["sum_ns"] = 7, 1_009
    maps: Any = {"totals": entries(key, value), "spare_totals": entries(key[:0], value[:0])}
    losses = Losses(partial(owners, ledger))
    sampler = Totals(maps, ledger, losses, lambda: 0, lambda *_: None)
    sampler.begin(41)
    value["count"] += 1
    value["sum_ns"] += 101
    rows = sampler.sample(47).to_pylist()
    told = [(row["function"], row["count"], row["sum_ns"]) for row in rows]
    assert told == [("oncpu", 2, 202), ("read", 16, 2_220)]
    assert {(row["since_ns"], row["timestamp_ns"]) for row in rows} == {(41, 53)}


def test_functions_that_are_not_counted_throughout_have_no_totals(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals, "possible_cpus", lambda: 1)
    ids = [
        next(f.id for f in FUNCTIONS if f.symbol == s)
        for s in ("cuLaunchKernel", "cudaLaunchKernel")
    ]
    key, value = np.zeros(2, TOTAL_KEY), np.zeros(2, TOTAL)
    key["cgroup_id"], key["function"], value["count"] = 23, ids, 7
    maps: Any = {"totals": entries(key, value), "spare_totals": entries(key[:0], value[:0])}
    losses = Losses(partial(owners, ledger))
    sampler = Totals(maps, ledger, losses, lambda: 0, lambda *_: None, without=RUNTIME_CALLS)
    (row,) = sampler.sample(1).to_pylist()
    assert (row["function"], row["count"]) == ("cuLaunchKernel", 7)
    # What became of its events is known all the same.
    assert {function for _, function in sampler.calls} == set(ids)


def test_waits_that_exceed_their_column_end_nothing(ledger: Ledger) -> None:
    key, value = np.zeros(1, CONTENTION_KEY), np.zeros(1, CONTENTION)
    key["cgroup_id"], value["waited_ns"] = 23, LARGEST
    pairs: Any = entries(key, value)
    sampler = CpuContention(pairs, ledger, lambda *_: False, lambda *_: None)
    rows = sampler.sample(1)
    assert rows is not None
    assert rows.column("waited_ns").to_pylist() == [LARGEST]
    value["waited_ns"] += 17
    rows = sampler.sample(2)
    assert rows is not None
    assert rows.column("waited_ns").to_pylist() == [17]


def test_a_hole_of_more_than_a_column_can_hold_is_told(ledger: Ledger) -> None:
    holes = Holes(ledger)
    for _ in range(2):
        holes.add(NO_SPAN, ("cuda",), None, 1, 2, LARGEST)
    rows = holes.sample(10 * SECOND)
    assert rows is not None
    assert rows.column("unseen").to_pylist() == [LARGEST]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[VirtualRecorder]:
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(1, "/attacker")
    recorder.cgroup(2, "/neighbour")
    recorder.began()
    yield recorder
    recorder.writer.close()


def test_copies_of_any_size_leave_spans_and_seconds_of_others_alone(
    recorder: VirtualRecorder,
) -> None:
    copy = "cuMemcpyHtoDAsync_v2"
    absurd = {"bytes": LARGEST_SIZE, "weight": LARGEST_WEIGHT, "direction": "HtoD", "stream": 5}
    recorder.events.add(
        *(call(copy, n + 1, 1, pid=7, **absurd) for n in range(211)),
        *(
            call(copy, n + 1, 1, pid=11, cgroup=2, bytes=13, direction="HtoD", stream=5)
            for n in range(23)
        ),
        *(
            call("cuStreamSynchronize", 1000, 1, pid=pid, cgroup=cgroup, stream=5)
            for pid, cgroup in ((7, 1), (11, 2))
        ),
    )
    recorder.cycle(10 * SECOND)
    recorder.cycle(20 * SECOND)
    recorder.finish()
    with Session(recorder.root) as session:
        for table in ("spans", "gpu_seconds", "rollups"):
            moved = "bytes" if table == "rollups" else "copied_bytes"
            told = session.ask(
                f"select cgroup_path, max({moved}) as bytes from {table} "
                "join containers using (cgroup_id) group by all order by all"
            ).rows()
            assert [row["bytes"] for row in told] == [LARGEST, 23 * 13]
