"""Spans made as rows come, against those that SQL derives from the same rows."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.virtual.rings import VirtualRecorder, call, seconds_and_spans, stored_and_derived

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


def interleaved(steps):
    """Ring records in the order in which their calls return; no two calls begin at once."""
    clocks, records = {}, []
    for number, (thread, ((symbol, about), stream), gap, took) in enumerate(steps):
        pid, tid = 10 + thread % 2, 20 + thread
        began = clocks.get(thread, SECOND) + gap // 64 * 64 + number
        clocks[thread] = began + took + 1
        more = about if stream is None else {**about, "stream": stream}
        handle = 0xF00 + number % 3 if symbol == "cuLaunchKernel" else 0
        record = call(
            symbol, began, took, pid=pid, tid=tid, cgroup=100 + pid % 2, handle=handle, **more
        )
        records.append((began + took, record))
    return sorted(records, key=lambda record: record[0])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # Shrinking takes minutes.
)
@given(calls, st.lists(st.integers(0, 149), max_size=5), st.integers(0, 3))
def test_spans_are_those_that_sql_derives(steps, cuts, started):
    root = Path(tempfile.mkdtemp())
    recorder = VirtualRecorder(root / "store")
    for kernel_id in (100, 101):
        recorder.cgroup(kernel_id, f"/tenant-{kernel_id}")
    recorder.began(SECOND + started * MS)
    for number, (ended, record) in enumerate(interleaved(steps)):
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
