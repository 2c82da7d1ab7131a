"""Names of kernels in spans take up no more memory than they may, whoever launches what."""

import numpy as np
import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest import span_names
from cotenant.query.engine.session import Session
from tests.virtual.rings import WIRE, VirtualRecorder, call

SECOND = 1_000_000_000
KERNELS = 1009
HOARDER, NEIGHBOUR = "/system.slice/hoarder.service", "/tenant-101"


@pytest.fixture
def shared(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.began()
    recorder.cgroup(101, NEIGHBOUR)
    recorder.cgroup(102, HOARDER)
    return recorder


def launch(recorder, at, kernels=KERNELS, first=1, pid=7, cgroup=102, **about):
    """Each of many kernels once."""
    one = call("cuLaunchKernel", at, 10, pid=pid, cgroup=cgroup, stream=5, threads=7, **about)
    records = np.repeat(np.frombuffer(one, WIRE), kernels)
    records["timestamp_ns"] += np.arange(kernels, dtype=np.uint64)
    records["handle"] = first + np.arange(kernels)
    recorder.events.extend(records)
    recorder.cycle(at + SECOND)


def wait(recorder, at, pid=7, cgroup=102):
    """What was launched is done."""
    recorder.events.add(call("cuCtxSynchronize", at, 10, pid=pid, cgroup=cgroup))
    recorder.cycle(at + SECOND)


def test_the_name_of_a_launch_that_failed_is_not_even_hashed(shared, monkeypatch):
    monkeypatch.setattr(span_names, "name_number", None)
    launch(shared, SECOND, result=400)
    assert shared.maker.names == {}


def test_a_launch_that_there_is_no_room_for_leaves_no_name(shared):
    full = np.repeat(np.frombuffer(call("cuLaunchKernel", 1, 1, cgroup=102, threads=7), WIRE), 8192)
    full["pid"] = 1000 + np.arange(len(full))
    full["handle"] = 1
    shared.events.extend(full)
    shared.cycle(SECOND)
    launch(shared, 2 * SECOND)
    assert shared.maker.refused() == {HOARDER: KERNELS}
    assert list(shared.maker.names.values()) == ["unknown@?+0x1"]


def test_names_that_no_operation_needs_go_when_there_are_many_bytes_of_them(shared, monkeypatch):
    monkeypatch.setattr(span_names, "_CROWDED_BYTES", 100 * KERNELS)
    launch(shared, SECOND)
    wait(shared, 20 * SECOND)
    assert len(shared.maker.names) == KERNELS
    shared.cycle(40 * SECOND)
    launch(shared, 41 * SECOND, 1)
    assert list(shared.maker.names.values()) == ["unknown@?+0x1"]
    wait(shared, 43 * SECOND)
    shared.finish()
    with Session(shared.root) as session:
        rows = session.ask("select count(distinct kernel_name) as names from span_mixes").rows()
    assert rows == [{"names": KERNELS}]


def test_who_has_many_bytes_of_names_in_flight_is_refused_more_and_others_are_not(
    shared, monkeypatch
):
    monkeypatch.setattr(span_names, "_BYTES_MAX", 1 << 20)
    for handle in range(1, KERNELS):
        text = f"{handle:04}{'k' * 2000}"
        shared._gpus.names.learn(Process(7, 7000), handle, text, 0)
    launch(shared, SECOND)
    lacking = shared.maker.refused()[HOARDER]
    assert KERNELS // 2 < lacking < KERNELS
    assert sum(map(len, shared.maker.names.values())) < 1 << 19
    assert shared.maker.counts()["refused"] == lacking
    # Also where both launch the same in one batch, and the other has had it refused.
    common = f"{KERNELS - 1:04}{'k' * 2000}"
    shared._gpus.names.learn(Process(8, 8000), 5, common, 0)
    about = {"stream": 5, "threads": 7}
    at = 3 * SECOND
    shared.events.add(
        call("cuLaunchKernel", at, 10, pid=7, cgroup=102, handle=KERNELS - 1, **about),
        call("cuLaunchKernel", at, 10, pid=8, cgroup=101, handle=5, **about),
        call("cuMemcpyDtoH_v2", at, 10, pid=7, cgroup=102, direction="DtoH", bytes=7),
    )
    shared.cycle(4 * SECOND)
    assert shared.maker.refused() == {HOARDER: lacking}
    assert {common, "[memcpy DtoH]"} < set(shared.maker.names.values())
    assert shared.maker.counts()["held"] == KERNELS - lacking + 3


def test_two_names_of_one_number_are_kept_as_one(shared, monkeypatch):
    monkeypatch.setattr(span_names, "name_number", lambda _: 5)
    launch(shared, SECOND)
    launch(shared, 3 * SECOND)
    wait(shared, 5 * SECOND)
    shared.cycle(8 * SECOND)
    assert shared.maker.names == {5: "unknown@?+0x1"}
