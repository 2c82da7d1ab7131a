"""What a tenant has had in flight takes up no memory for ever."""

from pathlib import Path

import numpy as np

from cotenant.agent.recorder.ingest.spans import _PROVES_CONTEXT, _PROVES_STREAM
from tests.unit.agent.recorder.ingest.test_span_costs import SECOND, Feed

STREAMS = 31
MEGABYTE = 1 << 20


def own_bytes():
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in x)
    return int(line.split()[1]) << 10


def test_streams_that_were_full_once_are_small_again():
    feed = Feed()
    feed.add(60_013, stream=0)
    before = own_bytes()
    launches = 0
    for stream in range(1, STREAMS):
        feed.add(60_013, stream=stream)
        feed.add(1, stream=stream, work=0, flags=_PROVES_CONTEXT)
        _, closed = feed.close()
        launches += int(closed["launches"].sum())
    assert launches == STREAMS * 60_013
    assert own_bytes() - before < 16 * MEGABYTE


def test_kinds_of_work_that_is_added_up_have_a_bound_for_all_streams():
    feed = Feed()
    feed.crowd()
    names = np.arange(60_013) % 50_021
    feed.add(60_013, stream=0, name=names)
    before = own_bytes()
    for stream in range(1, STREAMS):
        feed.add(60_013, stream=stream, name=names)
    assert own_bytes() - before < 24 * MEGABYTE
    _, closed = feed.close(stopping=True)
    own = closed[closed["pid"] == 7]
    assert own["launches"].tolist() == [60_013] * STREAMS
    # Those for which there was no room have sums, and no mix.
    assert 5 <= (own["mix"] != -1).sum() < STREAMS


def test_proofs_that_wait_to_settle_have_a_bound():
    feed = Feed()
    feed.add(5, stream=np.arange(5))
    feed.add(60_013, work=0, flags=_PROVES_STREAM)
    before = own_bytes()
    for stream in range(1, STREAMS):
        feed.add(60_013, stream=stream % 5, work=0, flags=_PROVES_STREAM)
    assert own_bytes() - before < 32 * MEGABYTE


def test_streams_that_were_waited_for_all_the_time_once_are_small_again():
    feed = Feed()
    feed.add(60_013, stream=0, work=0, flags=_PROVES_STREAM)
    before = own_bytes()
    for stream in range(1, STREAMS):
        feed.add(1, stream=stream)
        feed.add(60_013, stream=stream, work=0, flags=_PROVES_STREAM)
        feed.close()
    assert own_bytes() - before < 16 * MEGABYTE


def test_who_has_too_many_proofs_has_its_own_settle_at_once():
    feed = Feed()
    # The second launch of each returned before its wait, and its row comes after.
    for pid, tenant in ((8, 2), (7, 1)):
        feed.add(1, pid=pid, tenant=tenant)
        feed.add(1, pid=pid, tenant=tenant, work=0, flags=_PROVES_STREAM)
    feed.add(1, tenant=1, stream=6)
    for _ in range(5):
        feed.add(60_013, tenant=1, stream=6, work=0, flags=_PROVES_STREAM)
    for pid, tenant in ((8, 2), (7, 1)):
        feed.add(1, pid=pid, tenant=tenant, late=SECOND)
    _, closed = feed.close()
    assert sorted(closed[["pid", "launches"]].tolist()) == [(7, 1), (7, 1), (8, 2)]
    _, closed = feed.close(stopping=True)
    assert closed[["pid", "launches"]].tolist() == [(7, 1)]
    assert feed.native.counts()["refused"] == 0
