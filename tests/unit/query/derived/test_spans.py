"""Spans: from launch to the call that proves completion."""

import pytest

from cotenant.query.engine.session import Session
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000
pytestmark = pytest.mark.unbalanced("launches have no shape, and sessions no length")


class Calls:
    """A process's calls, written down one by one; times are in milliseconds."""

    def __init__(self, root):
        self.store = VirtualStore(root)

    def __call__(self, op, at, took=0.0, *, tenant="train", pid=7, **more):
        row = {"timestamp_ns": START_NS + int(at * MS), "duration_ns": int(took * MS)}
        row |= {"pid": pid, "op": op, "api": more.pop("api", f"cu_{op}"), "result": 0}
        row |= {"kernel_name": more.pop("name", f"[{op}]"), "gpu": "GPU-1"}
        self.store.add("cuda_events", tenant, row | more)

    def ask(self, sql):
        with Session(self.store.write()) as session:
            return [tuple(row.values()) for row in session.ask(sql).rows()]

    def spans(self, *columns):
        names = ", ".join(columns or ("stream", "start_ms", "end_ms", "waited"))
        return self.ask(
            f"""select {names} from (
                    select *, (start_ns - {START_NS}) / {MS} as start_ms,
                           (end_ns - {START_NS}) / {MS} as end_ms from spans
                ) order by start_ns, stream"""
        )


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path / "store")


def test_a_span_goes_from_the_first_launch_to_the_return_of_the_wait(calls):
    calls("launch", 1, 0.01, stream=5)
    calls("launch", 2, 0.01, stream=5)
    calls("sync", 3, 4, stream=5)
    assert calls.spans("stream", "start_ms", "end_ms", "launches", "waited") == [(5, 1, 7, 2, True)]


def test_a_wait_for_one_stream_proves_nothing_about_another(calls):
    calls("launch", 1, stream=5)
    calls("launch", 2, stream=6)
    calls("sync", 3, 1, stream=5)
    calls("sync", 5, 1, stream=6)
    assert calls.spans() == [(5, 1, 4, True), (6, 2, 6, True)]


def test_a_wait_for_the_context_proves_every_stream(calls):
    calls("launch", 1, stream=5)
    calls("launch", 2, stream=6)
    calls("sync", 3, 2, api="cuCtxSynchronize")
    assert calls.spans("stream", "start_ms", "end_ms", "streams") == [(5, 1, 5, 2), (6, 2, 5, 2)]


def test_a_wait_for_an_unknown_event_proves_nothing(calls):
    """What nothing proves may last until the recording ends."""
    calls("launch", 1, 0.5, stream=5)
    calls("sync", 3, 2, api="cuEventSynchronize")
    assert calls.spans("stream", "start_ms", "end_ms", "proven") == [(5, 1, 5, False)]


def test_a_query_that_found_the_stream_ready_proves_it(calls):
    calls("launch", 1, stream=5)
    calls("query", 4, 0.02, stream=5)
    assert calls.spans("stream", "start_ms", "end_ms", "proven") == [(5, 1, 4.02, True)]


def test_a_copy_that_returns_when_done_proves_the_default_stream(calls):
    calls("launch", 1, stream=0)
    calls("memcpy", 2, 3, direction="DtoH", bytes=64)
    calls("launch", 6, stream=1)
    calls("memcpy", 7, 1, direction="HtoD", bytes=64)
    assert calls.spans("stream", "start_ms", "end_ms", "launches", "copies", "proven") == [
        (0, 1, 5, 1, 1, True),
        (0, 6, 8, 1, 0, False),
        # Small, and to the device: it may only have returned sooner than what is before it.
        (0, 7, 8, 0, 1, False),
    ]


def test_a_small_copy_ends_by_itself(calls):
    calls("launch", 1, stream=0)
    calls("sync", 2, 3, stream=0)
    calls("memcpy", 6, 1, direction="HtoD", bytes=50_000, api="cuMemcpyHtoD_v2")
    assert calls.spans("stream", "start_ms", "end_ms", "copies", "closed_by") == [
        (0, 1, 5, 0, "wait"),
        (0, 6, 7 + 0.0015 + 0.002, 1, "copy"),
    ]


def test_a_small_copy_waits_for_what_is_before_it(calls):
    calls("launch", 1, stream=0)
    calls("memcpy", 3, 1, direction="HtoD", bytes=25, api="cuMemcpyHtoD_v2")
    calls("sync", 5, 4, stream=0)
    assert calls.spans("stream", "start_ms", "end_ms", "copies", "closed_by") == [
        (0, 1, 9, 0, "wait"),
        (0, 3, 9.001501, 1, "copy"),
    ]


def test_a_blocking_copy_proves_no_stream_of_another_context(calls):
    calls("launch", 1, stream=0, context=1)
    calls("launch", 2, stream=0, context=2)
    calls("memcpy", 3, 3, direction="DtoH", bytes=64, context=1)
    calls("sync", 8, 1, api="cuCtxSynchronize", context=2)
    assert calls.spans("context", "start_ms", "end_ms", "copies") == [(1, 1, 6, 1), (2, 2, 9, 0)]


def test_a_wait_proves_the_streams_of_its_context_only(calls):
    calls("launch", 1, stream=5, context=1)
    calls("launch", 2, stream=6, context=2)
    calls("sync", 3, 1, api="cuCtxSynchronize", context=1)
    calls("sync", 6, 1, api="cuCtxSynchronize", context=2)
    assert calls.spans("stream", "end_ms", "streams") == [(5, 4, 1), (6, 7, 1)]


def test_of_two_proofs_the_one_that_returns_first_counts(calls):
    calls("launch", 1, stream=5)
    calls("sync", 2, 9, api="cuCtxSynchronize", tid=8)
    calls("sync", 3, 1, stream=5, api="cuStreamSynchronize")
    assert calls.spans("end_ms", "proof_api") == [(4, "cuStreamSynchronize")]


def test_a_launch_that_returns_during_a_wait_is_not_proven_by_it(calls):
    calls("launch", 1, 2, stream=5)
    calls("sync", 2, 3, stream=5, tid=8)
    calls("sync", 7, 1, stream=5)
    assert calls.spans("start_ms", "end_ms") == [(1, 8)]


def test_a_wait_that_returns_at_once_ends_its_span_when_it_returns(calls):
    calls("launch", 1, stream=5)
    calls("sync", 9, 0.002, stream=5)
    assert calls.spans() == [(5, 1, 9.002, False)]


def test_work_launched_during_a_wait_waits_for_the_next(calls):
    calls("launch", 1, stream=5)
    calls("sync", 2, 4, stream=5)
    calls("launch", 3, stream=5, tid=8)
    calls("sync", 7, 2, stream=5)
    # The stream was busy with the first until 6: only then could the second run.
    assert calls.spans() == [(5, 1, 6, True), (5, 6, 9, True)]


def test_each_thread_has_a_stream_of_its_own_by_that_name(calls):
    for tid in (11, 12):
        calls("launch", tid - 10, stream=2, tid=tid)
    calls("sync", 5, 1, stream=2, tid=11)
    assert calls.spans("stream", "proven") == [(-11, True), (-12, False)]


def test_a_later_recording_proves_nothing_of_an_earlier_one(calls):
    calls.store.recording(0)
    calls.store.recording(3_600_000 * MS)
    calls("launch", 1, 1, stream=5)
    calls("sync", 3_600_001, 1, stream=5)
    calls("sync", 3_600_003, 1, api="cuCtxSynchronize")
    calls("launch", 3_600_005, 2, stream=5)
    assert calls.spans("start_ms", "end_ms", "proven") == [
        (1, 3_600_000, False),
        (3_600_005, 3_600_007, False),
    ]


def test_a_launch_that_failed_is_no_work(calls):
    calls("launch", 1, stream=5, result=700)
    calls("sync", 2, 1, stream=5)
    assert calls.spans() == []


def test_spans_with_the_same_work_have_the_same_signature(calls):
    for i, names in enumerate(("ab", "ba", "aab")):
        for j, name in enumerate(names):
            calls("launch", 10 * i + j, stream=5, name=name)
        calls("sync", 10 * i + 5, 1, stream=5)
    first, second, third = (signature for (signature,) in calls.spans("signature"))
    assert first == second != third


def test_time_queued_joins_spans_that_touch_and_pairs_share_what_both_have(calls):
    for stream, start, end in ((5, 0, 4), (6, 2, 6), (5, 8, 9)):
        calls("launch", start, stream=stream)
        calls("sync", start + 1, end - start - 1, stream=stream)
    calls("launch", 5, stream=5, tenant="serve", pid=8)
    calls("sync", 6, 2.5, stream=5, tenant="serve", pid=8)
    busy = calls.ask("select tenant, queued_ns from queued order by tenant, start_ns")
    assert busy == [("serve", int(3.5 * MS)), ("train", 6 * MS), ("train", MS)]
    shared = calls.ask("select tenant, other, overlap_ns from shared_time order by tenant")
    assert shared == [("serve", "train", int(1.5 * MS)), ("train", "serve", int(1.5 * MS))]


def test_tenants_on_gpus_that_are_not_known_are_no_pair(calls):
    for tenant, pid in (("a", 1), ("b", 2)):
        calls("launch", pid, stream=5, tenant=tenant, pid=pid, gpu=None)
        calls("sync", 4, 1, stream=5, tenant=tenant, pid=pid, gpu=None)
    assert calls.ask("select tenant, other, overlap_ns from shared_time") == []
    assert calls.ask("select victim, aggressor from interference") == []


def test_a_gpu_that_is_not_known_is_not_the_one_that_another_tenant_names(calls):
    calls("launch", 1, stream=5, gpu=None)
    calls("sync", 4, 1, stream=5, gpu=None)
    calls("launch", 2, stream=5, tenant="serve", pid=8)
    calls("sync", 3, 1, stream=5, tenant="serve", pid=8)
    assert calls.spans("tenant", "gpu") == [("train", None), ("serve", "GPU-1")]
    assert calls.ask("select tenant, other, overlap_ns from shared_time") == []


def test_a_gpu_that_may_be_either_of_two_stays_unknown(calls):
    for gpu, pid in ((None, 7), ("GPU-1", 8), ("GPU-2", 9)):
        calls("launch", pid, stream=5, pid=pid, gpu=gpu)
        calls("sync", 10, 1, stream=5, pid=pid, gpu=gpu)
    assert calls.spans("gpu") == [(None,), ("GPU-1",), ("GPU-2",)]
