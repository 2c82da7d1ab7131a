"""Names of kernels, for tenants that have very many or give them away again and again."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.eras import by_time
from tests.virtual.rings import WIRE, VirtualRecorder, call

PROCESS = Process(7, 7000)
HANDLES = 10_007
ROWS = 3 * HANDLES


def test_handles_that_all_changed_cost_about_as_much_as_those_that_did_not() -> None:
    codes = np.arange(ROWS, dtype=np.int32) % HANDLES
    times = np.arange(ROWS, dtype=np.uint64)
    batch = Batch(ROWS, {"timestamp_ns": times}, codes, np.zeros(HANDLES, "V8"))
    words: list[str | None] = [f"kernel_{code}" for code in range(HANDLES)]
    every = np.arange(HANDLES, dtype=np.int32)
    changed = {code: [(5, f"old_{code}"), (HANDLES, words[code])] for code in range(HANDLES)}
    ratios = []
    for _ in range(5):
        began = time.thread_time()
        plain = by_time(batch, every, words, {})
        between = time.thread_time()
        told = by_time(batch, every, words, changed)
        ratios.append((time.thread_time() - between) / (between - began))
    assert plain.to_pylist() == [words[code] for code in codes]
    assert told.to_pylist() == [
        f"old_{code}" if at < HANDLES else words[code] for at, code in enumerate(codes)
    ]
    assert min(ratios) < 20


class Read(list[tuple[int, str]]):
    """Eras that know how often they were gone through, and which of them."""

    def __init__(self, eras: Iterable[tuple[int, str]]) -> None:
        super().__init__(eras)
        self.times = 0
        self.parts: list[Any] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        self.times += 1
        return super().__iter__()

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            self.parts.append(range(len(self))[at])
        return super().__getitem__(at)


def test_eras_that_many_handles_share_are_gone_through_once_and_as_far_as_rows_need() -> None:
    """Two lists of eras; of one, a row is as old as the first era."""
    codes = np.arange(HANDLES, dtype=np.int32)
    times = 2_000 + np.arange(HANDLES, dtype=np.uint64) % 101
    times[0] = 1
    batch = Batch(HANDLES, {"timestamp_ns": times}, codes, np.zeros(HANDLES, "V8"))
    old, new = (Read((10 * at, f"{word}_{at}") for at in range(307)) for word in ("old", "new"))
    changed = {code: new if code else old for code in codes.tolist()}
    told = by_time(batch, codes, [None] * HANDLES, changed)
    assert told.to_pylist() == ["old_0", *(f"new_{int(at) // 10}" for at in times[1:])]
    assert (old.times, old.parts) == (0, [range(1)])
    assert (new.times, new.parts) == (0, [range(200, 211)])


@pytest.fixture
def recorder(tmp_path: Path) -> VirtualRecorder:
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(1, "/tenant")
    return recorder


def names_of(recorder: VirtualRecorder, records: list[bytes]) -> list[str]:
    """What the kernels of these launches are called."""
    recorder.events.add(*records)
    recorder.drain.catch_up()
    ((columns, batch),) = recorder.intake.take()
    rows: pa.Table = columns.make(batch)
    found: list[str] = rows.column("kernel_name").to_pylist()
    return found


def test_names_that_a_handle_had_before_the_first_row_are_not_looked_at(
    recorder: VirtualRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = recorder._gpus.names
    for at in range(211):
        names.learn(PROCESS, 5, f"kernel_{at}", 10 * at)
    asked: list[str] = []
    monkeypatch.setattr(names, "readable", lambda _, name: asked.append(name) or name)
    launches = [call("cuLaunchKernel", at, 1, handle=5) for at in (2075, 2089, 2090, 3000)]
    long = call("cuLaunchKernel", 3, 3000, pid=8, handle=6)
    told = ["kernel_207", "kernel_208", "kernel_209", "kernel_210"]
    assert names_of(recorder, [*launches, long]) == [*told, "unknown@?+0x6"]
    assert asked == told


@pytest.mark.parametrize("how", ["stubs", "aliases"])
def test_a_handle_of_many_names_behind_many_others_costs_no_more_than_its_rows(
    recorder: VirtualRecorder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    names, count = recorder._gpus.names, 1009
    others = np.arange(count) + 1000
    for other in others.tolist() if how == "aliases" else ():
        names.alias(PROCESS, other, 5, 1)
    for at in range(211):
        names.learn(PROCESS, 5, f"kernel_{at}" if at % 7 else "", 10 * at)
    asked: list[str] = []
    monkeypatch.setattr(names, "readable", lambda _, name: asked.append(name) or name)
    records = np.repeat(np.frombuffer(call("cuLaunchKernel", 1, 1), WIRE), count)
    records["handle"], records["stub"] = (5, others) if how == "stubs" else (others, 0)
    records["timestamp_ns"] = np.arange(count)
    told = names_of(recorder, [record.tobytes() for record in records])
    assert told == [
        f"kernel_{at // 10}" if at // 10 % 7 else f"unknown@?+{other:#x}"
        for at, other in enumerate(others)
    ]
    assert len(asked) <= count


def test_a_handle_is_nameless_between_two_names(recorder: VirtualRecorder) -> None:
    names = recorder._gpus.names
    names.learn(PROCESS, 5, "first", 10, module=3)
    names.forget(PROCESS, 3, 20)
    names.learn(PROCESS, 5, "second", 30)
    launches = [call("cuLaunchKernel", at, 1, handle=5) for at in (3, 10, 19, 20, 29, 30, 31)]
    nameless = "unknown@?+0x5"
    told = names_of(recorder, launches)
    assert told == ["first", "first", "first", nameless, nameless, "second", "second"]


def test_launches_of_ever_other_kernels_are_named_and_counted(recorder: VirtualRecorder) -> None:
    count = 1009
    launch = np.frombuffer(call("cuLaunchKernel", 1, 1, threads=64, stream=5), WIRE)
    records = np.repeat(launch, count)
    records["handle"] = np.arange(count) + 1
    names = recorder._gpus.names
    for handle in range(1, 24):
        names.learn(PROCESS, handle, f"kernel_{handle}", 0)
    recorder.events.extend(records)
    recorder.drain.catch_up()
    ((columns, batch),) = recorder.intake.take()
    told = columns.make(batch).column("kernel_name").to_pylist()
    assert told[:23] == [f"kernel_{handle}" for handle in range(1, 24)]
    assert told[23:] == [f"unknown@?+{handle:#x}" for handle in range(24, count + 1)]
    nameless = recorder._gpus._kernel.nameless(batch)
    assert [(*one,) for one in nameless] == [(PROCESS, n, 0) for n in range(24, count + 1)]
    recorder._gpus.layers.see(batch, names)
    assert recorder._gpus.layers.by_process == {PROCESS: [0, 0, count]}
