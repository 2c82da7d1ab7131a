"""Spans of a recording that was killed: what it did not store is derived from its rows."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.missing_spans import complete_in_child
from tests.virtual.rings import OFFSET_NS, VirtualRecorder, call, stored_and_derived

MS = 1_000_000
SECOND = 1_000 * MS


@pytest.fixture
def killed(tmp_path):
    """The store of a recording that ended before its last spans were closed."""
    recorder = VirtualRecorder(tmp_path / "store")
    recorder.cgroup(100, "/tenant-100")
    recorder.began(spans_until_ns=OFFSET_NS + 3 * SECOND)
    for at in (SECOND, 3 * SECOND):
        for stream in (5, 6):
            more = {"cgroup": 100, "stream": stream}
            recorder.events.add(call("cuLaunchKernel", at + stream, 9, threads=7, **more))
            recorder.events.add(call("cuStreamSynchronize", at + MS + stream, MS, **more))
        recorder.cycle(at + 2 * MS)
    recorder.events.add(call("cuLaunchKernel", 4 * SECOND, 9, cgroup=100, stream=5))
    recorder.cycle(4 * SECOND)
    recorder.end()
    return recorder.root


def test_the_next_start_derives_what_is_missing(killed):
    stored, derived = stored_and_derived(killed)
    assert (len(stored), len(derived)) == (2, 5)
    assert complete_in_child(killed, "node-a") is None
    stored, derived = stored_and_derived(killed)
    assert stored == derived


def test_what_is_derived_is_marked_and_derived_once(killed):
    for _ in range(2):
        assert complete_in_child(killed, "node-a") is None
    with Session(killed) as session:
        rows = session.ask("select closed_by, count(*) as n from spans group by all").rows()
        mixes = session.ask("select count(*) as n from spans join span_mixes using (mix)").rows()
        until = session.ask("select spans_until_ns from sessions").rows()
    assert sorted((row["closed_by"], row["n"]) for row in rows) == [("stop", 1), ("wait", 4)]
    assert mixes == [{"n": 5}]
    assert until == [{"spans_until_ns": None}]


def test_nothing_is_done_for_another_host(killed):
    assert complete_in_child(killed, "node-b") is None
    assert len(stored_and_derived(killed)[0]) == 2
