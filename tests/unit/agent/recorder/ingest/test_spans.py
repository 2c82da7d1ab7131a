"""Spans made as rows come, against those that follow from the same rows one by one."""

import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from cotenant.agent.process import Process
from cotenant.query.engine.session import Session
from tests.virtual.rings import (
    OFFSET_NS,
    VirtualRecorder,
    call,
    seconds_and_spans,
    stored_and_derived,
)

MS = 1_000_000
SECOND = 1_000 * MS
SETTLED = 10 * SECOND

KINDS = (
    ("cuLaunchKernel", {"threads": 64}),
    ("cuLaunchKernel", {"threads": 128, "weight": 5}),
    ("cuLaunchKernel", {"threads": 128, "nccl": 1}),
    ("cuLaunchKernel", {}),
    ("cuLaunchKernel", {"threads": 64, "result": 700}),
    ("cuGraphLaunch", {}),
    ("cuMemcpyHtoDAsync_v2", {"direction": "HtoD", "bytes": 4096}),
    ("cuMemsetD8Async", {"bytes": 1001}),
    ("cuStreamSynchronize", {}),
    ("cuStreamQuery", {}),
)
NAMELESS = (
    ("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}),
    ("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}),
    ("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65537}),
    ("cuCtxSynchronize", {}),
    ("cuEventSynchronize", {}),
)
kinds = st.one_of(
    st.tuples(st.sampled_from(KINDS), st.sampled_from((0, 1, 2, 5, 6))),
    st.tuples(st.sampled_from(NAMELESS), st.none()),
)
# Which thread, what, how long after its last call, and how long it takes.
calls = st.lists(
    st.tuples(
        st.integers(0, 4), kinds, st.integers(0, 3 * MS), st.sampled_from((0, 5_000, MS, 700 * MS))
    ),
    min_size=1,
    max_size=150,
)


places = st.lists(st.integers(0, 149), max_size=5)


def interleaved(steps, moves=()):
    """Ring records in the order in which their calls return; no two calls begin at once.

    At each of ``moves`` the process of that step goes to the other cgroup.
    """
    clocks, records, moved = {}, [], {}
    for number, (thread, ((symbol, about), stream), gap, took) in enumerate(steps):
        pid, tid = 10 + thread % 2, 20 + thread
        moved[pid] = moved.get(pid, 0) + moves.count(number)
        began = clocks.get(thread, SECOND) + gap // 64 * 64 + number
        clocks[thread] = began + took + 1
        more = about if stream is None else {**about, "stream": stream}
        handle = 0xF00 + number % 3 if symbol == "cuLaunchKernel" else 0
        cgroup = 100 + (pid + moved[pid]) % 2
        record = call(symbol, began, took, pid=pid, tid=tid, cgroup=cgroup, handle=handle, **more)
        records.append((began + took, record))
    return sorted(records, key=lambda record: record[0])


# Of a process that moves, one stream has open work in both cgroups.
@example(
    steps=[
        (0, (("cuMemsetD8Async", {"bytes": 1001}), 5), 0, MS),
        (0, (("cuMemsetD8Async", {"bytes": 1001}), 5), 0, MS),
        (0, (("cuLaunchKernel", {"threads": 64}), 2), 0, MS),
    ],
    cuts=[],
    started=0,
    moves=[1],
)
@example(
    steps=[
        (0, (("cuMemsetD8Async", {"bytes": 1001}), 5), 0, MS),
        (0, (("cuLaunchKernel", {"threads": 64}), 2), 0, MS),
        (0, (("cuMemsetD8Async", {"bytes": 1001}), 5), 0, MS),
        (0, (("cuCtxSynchronize", {}), None), 0, MS),
    ],
    cuts=[],
    started=0,
    moves=[1],
)
# A thread queues in one cgroup while a copy that another began in the other is not done.
@example(
    steps=[
        (2, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65537}), None), 29790, MS),
        (0, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65537}), None), 16985, 0),
        (4, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 291752, MS),
        (1, (("cuCtxSynchronize", {}), None), 1935, 700 * MS),
        (2, (("cuLaunchKernel", {"threads": 128, "nccl": 1}), 5), 8420, 0),
        (2, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 465, 5000),
    ],
    cuts=[],
    started=2,
    moves=[1],
)
# What proves a stream done comes before the first row of the cgroup that its process went to.
@example(
    steps=[
        (4, (("cuMemsetD8Async", {"bytes": 1001}), 0), 38, MS),
        (4, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 99, MS),
        (2, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 3311, 5000),
        (4, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 126, 5000),
        (0, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 357137, MS),
        (0, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 1384, MS),
    ],
    cuts=[5],
    started=0,
    moves=[5],
)
# A copy back begins before a small copy, returns after it, and is known a cycle later.
@example(
    steps=[
        (2, (("cuMemcpyDtoH_v2", {"direction": "DtoH", "bytes": 64}), None), 3173, MS),
        (3, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 800, 700 * MS),
        (0, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 339986, 5000),
    ],
    cuts=[1],
    started=0,
    moves=[],
)
# A launch without a wait begins before a small copy, and returns after it.
@example(
    steps=[
        (2, (("cuLaunchKernel", {"threads": 128, "weight": 5}), 2), 3948, 700 * MS),
        (0, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 38244, 5000),
        (0, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65537}), None), 242, 5000),
    ],
    cuts=[],
    started=0,
    moves=[],
)
# A wait proves a stream, another one, and small copies of the first.
@example(
    steps=[
        (4, (("cuLaunchKernel", {"threads": 64}), 1), 332, 0),
        (4, (("cuMemcpyHtoD_v2", {"direction": "HtoD", "bytes": 65536}), None), 776, MS),
        (4, (("cuCtxSynchronize", {}), None), 193, 0),
        (2, (("cuLaunchKernel", {"threads": 128, "weight": 5}), 2), 221, 0),
    ],
    cuts=[],
    started=0,
    moves=[],
)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # Shrinking takes minutes.
)
@given(calls, places, st.integers(0, 3), places)
def test_spans_are_those_that_follow_from_rows(steps, cuts, started, moves):
    root = Path(tempfile.mkdtemp())
    recorder = VirtualRecorder(root / "store")
    for kernel_id in (100, 101):
        recorder.cgroup(kernel_id, f"/tenant-{kernel_id}")
    recorder.began(SECOND + started * MS)
    for number, (ended, record) in enumerate(interleaved(steps, moves)):
        if number in cuts:
            recorder.cycle(ended)
        recorder.events.add(record)
    recorder.cycle(ended)
    recorder.cycle(ended + SETTLED)
    recorder.finish()
    stored, derived = stored_and_derived(root / "store")
    seconds = seconds_and_spans(root / "store")
    shutil.rmtree(root)
    assert stored == derived
    assert seconds[0] == seconds[1]


@pytest.fixture
def recorder(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(100, "/tenant-100")
    recorder.began()
    return recorder


def test_a_process_that_moves_has_spans_in_each_of_its_cgroups(recorder):
    """Work of a cgroup lasts until a wait proves it, in whichever cgroup that is called."""
    recorder.cgroup(101, "/tenant-101")
    for number, cgroups in enumerate(((100, 100), (100, 101), (101, 101), (101, 100, 101))):
        at = SECOND * (1 + number)
        for place, cgroup in enumerate(cgroups):
            launched = at + place * MS
            recorder.events.add(
                call("cuLaunchKernel", launched, 10, cgroup=cgroup, stream=5, threads=7)
            )
        waited = at + len(cgroups) * MS
        recorder.events.add(
            call("cuStreamSynchronize", waited, 9 * MS, cgroup=cgroups[-1], stream=5)
        )
        recorder.cycle(waited + SECOND // 2)
    own = spans(recorder, "tenant, launches, streams, (end_ns - start_ns) // 1000000")
    assert sorted(own) == [
        ("/tenant-100", 1, 1, 11), ("/tenant-100", 1, 1, 11), ("/tenant-100", 2, 1, 11),
        ("/tenant-101", 1, 1, 10), ("/tenant-101", 2, 1, 11), ("/tenant-101", 2, 1, 12),
    ]  # fmt: skip
    stored, derived = stored_and_derived(recorder.root)
    assert stored == derived


def spans(recorder, columns):
    recorder.finish()
    with Session(recorder.root) as session:
        rows = session.ask(f"select {columns} from spans order by start_ns, stream").rows()
    return [tuple(row.values()) for row in rows]


def launches(recorder, *moments, **more):
    one = call("cuLaunchKernel", 0, 10, cgroup=100, stream=5, threads=7, **more)
    recorder.events.add(*(struct.pack("<Q", at) + one[8:] for at in moments))


def wait(recorder, at, took):
    recorder.events.add(call("cuStreamSynchronize", at, took, cgroup=100, stream=5))


def test_a_span_is_stored_once_its_proof_has_settled(recorder):
    launches(recorder, SECOND)
    wait(recorder, SECOND + MS, MS)
    recorder.cycle(2 * SECOND)
    assert recorder.writer.buffered_bytes > 0
    assert recorder.maker.counts()["held"] == 1
    recorder.cycle(3 * SECOND + 1)
    assert recorder.maker.counts()["held"] == 0
    assert spans(recorder, "closed_by, launches") == [("wait", 1)]


def test_waits_that_last_hold_back_no_span_of_their_process(recorder):
    """Each second another thread returns from a wait that began before all work."""
    for number in range(6, 17):
        at = number * SECOND
        launches(recorder, at)
        wait(recorder, at + MS, MS)
        took = at - SECOND // 2 + number
        late = call("cuStreamSynchronize", SECOND // 2, took, cgroup=100, stream=6)
        recorder.events.add(late)
        recorder.cycle(at + SECOND // 2)
        assert recorder.maker.counts()["held"] <= 2
    recorder.cycle(20 * SECOND)
    stored, derived = stored_and_derived(recorder.root)
    assert stored == derived
    assert spans(recorder, "closed_by, launches") == [("wait", 1)] * 11


def test_the_work_of_a_process_that_ended_is_a_span_without_proof(recorder):
    launches(recorder, SECOND, 2 * SECOND)
    recorder.cycle(3 * SECOND)
    recorder.maker.gone(Process(7, 7000), OFFSET_NS + 4 * SECOND)
    recorder.cycle(5 * SECOND)
    assert recorder.maker.counts() == {"held": 0, "queues": 0, "items": 1, "refused": 0}
    assert spans(recorder, "closed_by, launches, proven") == [("exit", 2, False)]


def test_a_wait_proves_what_its_process_queued_in_another_cgroup(recorder):
    recorder.cgroup(101, "/tenant-101")
    launches(recorder, SECOND)
    recorder.events.add(call("cuLaunchKernel", SECOND + 50, 10, cgroup=101, stream=5, threads=7))
    recorder.events.add(call("cuStreamSynchronize", SECOND + MS, MS, cgroup=101, stream=5))
    recorder.cycle(2 * SECOND)
    recorder.cycle(4 * SECOND)
    assert spans(recorder, "tenant, closed_by, launches") == [
        ("/tenant-100", "wait", 1),
        ("/tenant-101", "wait", 1),
    ]


def test_what_is_never_proven_is_not_held_for_ever(recorder):
    launches(recorder, SECOND)
    recorder.cycle(2 * SECOND)
    recorder.cycle(603 * SECOND)
    assert recorder.maker.counts()["held"] == 0
    recorder.cycle(1300 * SECOND)
    found = spans(recorder, f"closed_by, launches, start_ns - {OFFSET_NS}, end_ns - {OFFSET_NS}")
    # It may still be under way: each goes on where the one before ended.
    assert found == [
        ("age", 1, SECOND, 603 * SECOND),
        ("age", 0, 603 * SECOND, 1300 * SECOND),
        ("stop", 0, 1300 * SECOND, 1300 * SECOND),
    ]


def test_launches_by_the_hundred_thousand_without_a_wait_are_one_span_in_bounded_memory(recorder):
    for turn in range(20):
        launches(recorder, *range(SECOND + turn * 10_000, SECOND + turn * 10_000 + 10_000))
        recorder.cycle(2 * SECOND)
    assert recorder.maker.counts()["held"] <= 131_072
    wait(recorder, 2 * SECOND, MS)
    recorder.cycle(3 * SECOND)
    recorder.cycle(5 * SECOND)
    assert spans(recorder, "closed_by, launches, total_extent") == [("wait", 200_000, 1_400_000)]
    with Session(recorder.root) as session:
        rows = session.ask("select size, count from span_mixes join spans using (mix)").rows()
    assert rows == [{"size": 7, "count": 200_000}]


def test_a_span_says_what_was_shed_and_that_rows_were_lost(recorder):
    launches(recorder, SECOND, weight=5)
    wait(recorder, SECOND + MS, MS)
    launches(recorder, 5 * SECOND)
    wait(recorder, 5 * SECOND + MS, MS)
    recorder.cycle(6 * SECOND)
    tenant = recorder.ledger.cgroup_id(0, 100)
    recorder.losses.gpu_windows.add(tenant, OFFSET_NS + SECOND, OFFSET_NS + 2 * SECOND)
    recorder.cycle(9 * SECOND)
    assert spans(recorder, "launches, shed, lost") == [(5, 4, True), (1, 0, False)]


def test_a_mix_has_the_same_number_in_every_recording(tmp_path):
    numbers = []
    for name in ("one", "other"):
        recorder = VirtualRecorder(tmp_path / name, node=name)
        recorder.cgroup(100, "/tenant-100")
        recorder.began()
        launches(recorder, SECOND, SECOND + 20)
        wait(recorder, SECOND + MS, MS)
        recorder.cycle(2 * SECOND)
        numbers += spans(recorder, "mix")
    assert numbers[0] == numbers[1]
