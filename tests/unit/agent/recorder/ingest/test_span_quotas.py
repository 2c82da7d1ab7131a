"""A tenant that takes all the room for spans that it can has its neighbours lose none."""

import numpy as np
import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.query.engine.session import Session
from tests.virtual.rings import OFFSET_NS, WIRE, VirtualRecorder, call

MS = 1_000_000
SECOND = 1_000 * MS
HOARDER, NEIGHBOUR = "/system.slice/hoarder.service", "/tenant-101"
PROCESSES, STREAMS = 16, 4096
HALF = PROCESSES * STREAMS // 2


def hoard(recorder, at, pid=1000, streams=STREAMS, ops=PROCESSES * STREAMS):
    """A launch on each of many streams, from cgroups that the tenant made within its own."""
    number = np.arange(ops)
    one = call("cuLaunchKernel", at, 10, stream=5, threads=7)
    records = np.repeat(np.frombuffer(one, WIRE), len(number))
    records["timestamp_ns"] += number.astype(np.uint64)
    records["stream"] = 0x1000 + number % streams
    records["pid"] = records["tid"] = pid + number // streams
    records["process_start_ns"] = records["pid"].astype(np.uint64) * 1000
    records["cgroup_id"] = 200 + number // streams % PROCESSES
    recorder.events.extend(records)
    recorder.cycle(at + SECOND)


@pytest.fixture
def shared(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.began()
    recorder.cgroup(101, NEIGHBOUR)
    recorder.cgroup(102, HOARDER)
    for inner in range(PROCESSES):
        recorder.cgroup(200 + inner, f"{HOARDER}/inner-{inner}")
    return recorder


def test_who_takes_all_streams_it_can_leaves_room_for_its_neighbours(shared):
    hoard(shared, SECOND)
    assert shared.maker.counts()["queues"] == HALF
    assert shared.maker.refused() == {HOARDER: HALF}
    for stream in range(1009):
        about = {"pid": 7, "cgroup": 101, "stream": 0x1000 + stream}
        at = 3 * SECOND + stream * 1000
        shared.events.add(call("cuLaunchKernel", at, 10, threads=7, **about))
        shared.events.add(call("cuStreamSynchronize", at + 100, 10, **about))
    shared.cycle(4 * SECOND)
    shared.cycle(6 * SECOND)
    assert shared.maker.refused() == {HOARDER: HALF}
    counted = "count(*) as spans, count(*) filter (proven) as proven"
    shared.finish()
    with Session(shared.root) as session:
        rows = session.ask(f"select tenant, {counted} from spans group by all order by all").rows()
    assert [tuple(row.values()) for row in rows] == [
        (NEIGHBOUR, 1009, 1009), ("hoarder.service", HALF, 0)
    ]  # fmt: skip


def test_who_has_a_stream_in_each_of_many_processes_leaves_room_for_its_neighbours(shared):
    hoard(shared, SECOND, streams=1, ops=16_384)
    assert shared.maker.refused() == {HOARDER: 8_192}
    hoard(shared, 3 * SECOND, pid=1000, streams=1, ops=8_192)
    shared.events.add(call("cuLaunchKernel", 5 * SECOND, 10, cgroup=101, stream=5, threads=7))
    shared.cycle(6 * SECOND)
    assert shared.maker.counts() == {"held": 16_385, "queues": 8_193, "items": 1, "refused": 8_192}


def test_who_has_no_more_room_can_still_wait_for_what_it_has(shared):
    hoard(shared, SECOND)
    for at in range(PROCESSES):
        about = {"pid": 1000 + at, "cgroup": 200 + at}
        shared.events.add(call("cuCtxSynchronize", 2 * SECOND + at, 10, **about))
        shared.events.add(call("cuStreamSynchronize", 2 * SECOND + at, 10, stream=5, **about))
    shared.cycle(3 * SECOND)
    shared.cycle(5 * SECOND)
    assert shared.maker.counts()["held"] == 0
    assert shared.maker.refused() == {HOARDER: HALF}  # Waits are no operations.


def test_room_for_streams_is_given_back_when_their_processes_end(shared):
    hoard(shared, SECOND)
    for pid in range(1000, 1000 + PROCESSES):
        shared.maker.gone(Process(pid, pid * 1000), 0)
    shared.cycle(4 * SECOND)
    assert shared.maker.counts()["queues"] == 0
    hoard(shared, 5 * SECOND, pid=2000)
    assert shared.maker.counts() == {
        "held": HALF, "queues": HALF, "items": 1, "refused": 2 * HALF
    }  # fmt: skip
    assert shared.maker.refused() == {HOARDER: 2 * HALF}


def test_who_has_too_many_operations_in_flight_has_its_own_added_up(tmp_path):
    recorder = VirtualRecorder(tmp_path / "store", ring_bytes=1 << 25)
    recorder.cgroup(101, NEIGHBOUR)
    recorder.cgroup(102, HOARDER)
    recorder.began()
    for turn in range(22):
        one = call("cuLaunchKernel", SECOND, 10, pid=50 + turn // 2, cgroup=102, threads=7)
        records = np.repeat(np.frombuffer(one, WIRE), 50_000)
        records["timestamp_ns"] += np.arange(len(records), dtype=np.uint64) + turn * 50_000
        recorder.events.extend(records)
        recorder.cycle(2 * SECOND)
    assert recorder.maker.counts()["held"] < 600_000
    # A wait that began between two halves, and whose row comes after both.
    moments = [("cuLaunchKernel", number * MS) for number in range(46)]
    moments += [("cuStreamSynchronize", after * MS + 100) for after in (22, 45)]
    about = {"cgroup": 101, "stream": 5, "threads": 7}
    late = b"".join(call(symbol, 2 * SECOND + at, 10, **about) for symbol, at in moments)
    recorder.events.extend(np.frombuffer(late, WIRE))
    recorder.cycle(3 * SECOND)
    recorder.cycle(5 * SECOND)
    recorder.finish()
    with Session(recorder.root) as session:
        rows = session.ask("select tenant, launches from spans order by all").rows()
    # Where operations are added up, every count is there.
    assert [tuple(row.values()) for row in rows] == [
        (NEIGHBOUR, 23), (NEIGHBOUR, 23), *[("hoarder.service", 100_000)] * 11
    ]  # fmt: skip


def test_who_invents_gpus_leaves_numbers_for_those_of_its_neighbours(shared):
    for pid in range(1, 700):
        shared.opened(pid, f"/dev/nvidia{pid}")
        shared.events.add(call("cuLaunchKernel", SECOND + pid, 10, pid=pid, cgroup=200, threads=7))
    shared.cycle(2 * SECOND)
    shared.opened(7000, "/dev/nvidia7000")
    about = {"pid": 7000, "cgroup": 101, "threads": 7}
    shared.events.add(call("cuLaunchKernel", 2 * SECOND, 10, **about))
    shared.events.add(call("cuCtxSynchronize", 2 * SECOND + 100, 10, pid=7000, cgroup=101))
    shared.cycle(3 * SECOND)
    assert len(shared.maker.gpus.words) == 512 + 1
    assert shared.maker.gpus.words[-1] == "/dev/nvidia7000"
    assert shared.maker.refused() == {HOARDER: 699 - 512}


def test_numbers_of_gpus_are_given_back_when_nothing_is_of_them(shared):
    for tenant in range(12):
        shared.cgroup(300 + tenant, f"/job-{tenant}")
        at = (10 + tenant) * SECOND
        for pid in range(1 + tenant * 600, 601 + tenant * 600):
            shared.opened(pid, f"GPU-{pid}")
            about = {"pid": pid, "cgroup": 300 + tenant, "threads": 7}
            shared.events.add(call("cuLaunchKernel", at + pid, 10, **about))
        shared.cycle(at + SECOND)
        for pid in range(1 + tenant * 600, 601 + tenant * 600):
            shared.maker.gone(Process(pid, pid * 1000), OFFSET_NS + at + pid + 100)
    assert sum(shared.maker.refused().values()) == 12 * 600 - len(shared.maker.gpus.words)
    refused = shared.maker.refused()
    shared.cycle(2000 * SECOND)  # All that was pending is a span by now, of its GPU.
    shared.cycle(2001 * SECOND)
    shared.opened(9000, "GPU-9000")
    shared.events.add(call("cuLaunchKernel", 2001 * SECOND, 10, pid=9000, cgroup=101, threads=7))
    shared.cycle(2002 * SECOND)
    shared.cycle(2004 * SECOND)
    assert shared.maker.refused() == refused
    assert len(shared.maker.gpus.words) <= 1024
    shared.finish()
    with Session(shared.root) as session:
        rows = session.ask("select pid, gpu from spans where gpu is not null").rows()
    assert {row["gpu"] for row in rows} == {f"GPU-{row['pid']}" for row in rows}
    assert any(row["gpu"] == "GPU-9000" for row in rows)


def test_what_a_tenant_had_no_room_for_makes_answers_from_its_spans_incomplete(shared):
    holes = Holes(shared.ledger)
    spots = BlindSpots(holes, WallClock())
    spots.counted({}, {"spans": shared.maker.refused()}, OFFSET_NS + SECOND)
    hoard(shared, SECOND)
    spots.counted({}, {"spans": shared.maker.refused()}, OFFSET_NS + 2 * SECOND)
    spots.counted({}, {"spans": shared.maker.refused()}, OFFSET_NS + 3 * SECOND)
    shared.writer.append("losses", holes.sample(OFFSET_NS + 3 * SECOND))
    shared.finish()

    def told(sql, **options):
        with Session(shared.root, **options) as session:
            return [(h.reason, h.tenants, h.unseen) for h in session.ask(sql).standing.holes]

    missing = [("no room for spans", ("hoarder.service",), HALF)]
    for table in ("spans", "span_mixes", "queued", "gpu_seconds", "gpu_overlaps"):
        assert told(f"select count(*) from {table}") == missing, table
    assert told("select count(*) from cuda_events") == []
    assert told("select count(*) from spans", tenant="hoarder.service") == missing
    assert told("select count(*) from spans", tenant=NEIGHBOUR) == []
