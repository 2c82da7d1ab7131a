"""What proves work done that rows do not tell, and when the device certainly worked."""

import pytest

from cotenant.agent.process import Process
from cotenant.query.engine.session import Session
from tests.virtual.rings import OFFSET_NS, VirtualRecorder, call

US = 1_000
MS = 1_000_000
SECOND = 1_000 * MS
BLOCKING, NON_BLOCKING = 0, 1
SLEEP_US, SPIN_US = 100, 10  # The most that a thread learns after the device was done.


class Recorded(VirtualRecorder):
    """One process's calls, at microseconds."""

    def __call__(self, symbol, at, took=1, *, seen=None, recorded=None, **more):
        if seen is not None:
            more["seen"] = seen[0], SECOND + seen[1] * US
        if recorded is not None:
            more["recorded"] = SECOND + recorded * US
        if symbol == "cuLaunchKernel":
            more["threads"] = 7
        self.events.add(call(symbol, SECOND + at * US, took * US, cgroup=100, **more))

    def found(self, columns):
        """Of each span; times in microseconds."""
        self.cycle(3 * SECOND)
        self.cycle(5 * SECOND)
        self.finish()
        began = OFFSET_NS + SECOND
        with Session(self.root) as session:
            rows = session.ask(
                f"""select {columns} from (
                        select *, (start_ns - {began}) // {US} as "from",
                               (end_ns - {began}) // {US} as until,
                               (done_ns - {began}) // {US} as done,
                               (certain_from_ns - {began}) // {US} as certain_from,
                               (certain_until_ns - {began}) // {US} as certain_until from spans
                    ) order by start_ns, stream"""
            ).rows()
        return [tuple(row.values()) for row in rows]


@pytest.fixture
def calls(tmp_path):
    recorder = Recorded(tmp_path / "store")
    recorder.cgroup(100, "/tenant-100")
    recorder.began()
    return recorder


def test_a_wait_for_an_event_proves_what_was_queued_before_its_record(calls):
    calls("cuLaunchKernel", 0, stream=5)
    calls("cuLaunchKernel", 9, stream=5)
    calls("cuEventSynchronize", 20, 30, stream=5, recorded=5)
    calls("cuStreamSynchronize", 70, 10, stream=5)
    assert calls.found('"from", until, launches, proof_api') == [
        (0, 50, 1, "cuEventSynchronize"),
        (50, 80, 1, "cuStreamSynchronize"),
    ]


def test_an_event_that_was_recorded_later_proves_more_than_one_that_returns_later(calls):
    calls("cuLaunchKernel", 0, stream=5)
    calls("cuEventSynchronize", 20, 60, stream=5, recorded=5, tid=8)
    calls("cuEventQuery", 30, 10, stream=5, recorded=6)
    assert calls.found("until, closed_by") == [(40, "query")]


@pytest.mark.parametrize(("flags", "until"), [(BLOCKING, 40), (NON_BLOCKING, 90), (None, 90)])
def test_a_blocking_copy_proves_blocking_streams(calls, flags, until):
    if flags is not None:
        calls.maker.streams.made(Process(7, 7000), 5, flags, "tenant")
    calls("cuLaunchKernel", 0, stream=5)
    calls("cuMemcpyDtoH_v2", 20, 20, direction="DtoH", bytes=64)
    calls("cuStreamSynchronize", 80, 10, stream=5)
    assert calls.found("stream, until") == [(5, until), (0, 40)]


@pytest.mark.parametrize(("flags", "until"), [(BLOCKING, 91), (NON_BLOCKING, 41), (None, 91)])
def test_a_small_copy_waits_for_all_but_non_blocking_streams(calls, flags, until):
    if flags is not None:
        calls.maker.streams.made(Process(7, 7000), 5, flags, "tenant")
    calls("cuLaunchKernel", 0, stream=5)
    calls("cuMemcpyHtoD_v2", 20, 20, direction="HtoD", bytes=64)
    calls("cuStreamSynchronize", 80, 10, stream=5)
    assert calls.found("stream, until") == [(5, 90), (0, until)]


def test_small_copies_end_one_by_one(calls):
    for at in range(0, 5000, 100):
        calls("cuMemcpyHtoD_v2", at, 2, direction="HtoD", bytes=64)
    assert calls.found('until - "from"') == [(3,)] * 50


def test_a_thread_that_slept_knows_until_when_the_device_worked(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls("cuStreamSynchronize", 20, 980, stream=5, seen=("woken", 900))
    assert calls.found("done, certain_from, certain_until") == [(900, 5, 900 - SLEEP_US)]


def test_a_thread_that_span_knows_until_when_the_device_worked(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls("cuStreamSynchronize", 20, 980, stream=5, seen=("spun", 1000))
    assert calls.found("done, certain_from, certain_until") == [(1000, 5, 1000 - SPIN_US)]


def test_a_query_that_found_work_unfinished_knows_that_the_device_worked(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls("cuStreamQuery", 1000, 2, stream=5, seen=("not_ready", 700))
    assert calls.found("done, certain_from, certain_until") == [(None, 5, 700)]


def test_a_short_wait_is_a_delay_of_the_host_or_may_be(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls("cuStreamSynchronize", 20, 130, stream=5, seen=("woken", 150))
    calls("cuLaunchKernel", 1000, 5, stream=5)
    calls("cuStreamSynchronize", 1010, 120, stream=5)
    assert calls.found("done, certain_from, certain_until") == [
        (150, None, None),
        (None, None, None),
    ]


def test_spans_that_one_wait_proves_are_certain_of_the_same_time(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls("cuLaunchKernel", 200, 5, stream=6)
    calls("cuCtxSynchronize", 300, 700, seen=("spun", 1000))
    assert calls.found("stream, streams, certain_from, certain_until") == [
        (5, 2, 205, 1000 - SPIN_US),
        (6, 2, 205, 1000 - SPIN_US),
    ]


def test_a_tenants_shortest_waits_bound_the_delay_of_its_wakeups(calls):
    for at in range(0, 200_000, 1000):
        calls("cuLaunchKernel", at, 5, stream=5)
        calls("cuStreamSynchronize", at + 10, 40, stream=5, seen=("woken", at + 40))
    calls("cuLaunchKernel", 300_000, 5, stream=5)
    calls("cuStreamSynchronize", 300_010, 990, stream=5, seen=("woken", 301_000))
    # 30 us in the shortest, one to the next, and ten of margin.
    assert calls.found("certain_until")[-1] == (301_000 - 41,)


def test_an_unproven_span_lasts_until_its_process_exits(calls):
    calls("cuLaunchKernel", 0, 5, stream=5)
    calls.cycle(2 * SECOND)
    calls.maker.gone(Process(7, 7000), OFFSET_NS + SECOND + 700 * US)
    assert calls.found('"from", until, closed_by') == [(0, 700, "exit")]
