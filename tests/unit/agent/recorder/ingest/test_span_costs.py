"""What a row costs the recorder does not grow with what its tenant has in flight."""

import time

import numpy as np
import pytest

from cotenant._native import Spans
from cotenant.agent.recorder.ingest.spans import _LAUNCH, _PROVES_CONTEXT, _PROVES_STREAM, SPAN
from cotenant.agent.recorder.ingest.spans import _SIGNATURE as SIGNATURE

SECOND = 1_000_000_000
ROWS = 20_011
# A row of a crowd may cost so many times as much as a row without: caches are missed more often.
DEARER = 40
# Of the operations that are kept one by one a tenant gets half, and the first few of each stream.
MOST, EACH = 1 << 19, 16


class Feed:
    """Rows of one tenant, fed without a batch; each begins a microsecond after the one before."""

    def __init__(self):
        self.native = Spans(SECOND, 600 * SECOND)
        self.at_ns = 1000 * SECOND

    def add(
        self, count, *, pid=7, stream=5, cgroup=100, name=0, work=_LAUNCH, flags=0, tenant=0,
        took=0, late=0,
    ):  # fmt: skip
        """So many rows; what is told as an array differs from row to row.

        A call that took longer began sooner, and its row comes in its turn, or so much later.
        """
        signatures = np.zeros(count, SIGNATURE)
        for field, value in (
            ("pid", pid), ("stream", stream), ("cgroup_id", cgroup), ("work", work),
            ("flags", flags), ("tenant", tenant),
        ):  # fmt: skip
            signatures[field] = value
        distinct, codes = np.unique(signatures, return_inverse=True)
        took = np.broadcast_to(np.asarray(took, np.int64), count)
        began = self.at_ns + np.arange(count, dtype=np.int64) * 1000 - took - late
        self.at_ns += count * 1000
        names = np.broadcast_to(np.asarray(name, np.uint64), count).copy()
        nothing = np.zeros(count, np.uint64)
        rows = (
            codes.astype(np.int32),
            began,
            took.astype(np.uint64),
            nothing,
            names,
            nothing,
            nothing + 1,
        )
        before = time.thread_time()
        self.native.add(self.at_ns, distinct, *rows)
        return time.thread_time() - before

    def crowd(self):
        """Other processes of the tenant take all the room for operations that it gets."""
        left = MOST
        for pid in range(1001, 1006):
            held = min(left, 131_011)
            self.add(held + EACH, pid=pid)
            left -= held

    def close(self, *, stopping=False):
        """What it takes to close what has settled."""
        self.at_ns += 2 * SECOND
        before = time.thread_time()
        _, closed, *_ = self.native.take(self.at_ns, self.at_ns, stopping)
        return time.thread_time() - before, np.frombuffer(closed, SPAN)


def of_kinds(kinds):
    feed = Feed()
    feed.crowd()
    feed.add(60_013, name=np.arange(60_013) % kinds)
    took = feed.add(ROWS, name=np.arange(ROWS) % kinds)
    _, closed = feed.close(stopping=True)
    own = closed[closed["pid"] == 7]
    assert own["launches"].tolist() == [60_013 + ROWS]
    assert own["mix"].tolist() != [-1]
    return took


def of_streams_of_a_process_that_moved(streams):
    feed = Feed()
    feed.add(streams - 1, stream=np.arange(streams - 1))
    feed.add(1, cgroup=101)
    return feed.add(ROWS, stream=0, work=0, flags=_PROVES_STREAM)


def of_cgroups_of_a_process(cgroups):
    feed = Feed()
    feed.add(cgroups, cgroup=np.arange(cgroups))
    return feed.add(ROWS, cgroup=0, work=0, flags=_PROVES_STREAM) + feed.close()[0]


def of_streams_that_are_waited_for_in_a_crowd(streams):
    feed = Feed()
    feed.crowd()
    feed.add(streams, stream=np.arange(streams))
    waits = np.arange(ROWS) % 9 == 8
    return feed.add(ROWS, stream=0, work=np.where(waits, 0, _LAUNCH), flags=waits * _PROVES_CONTEXT)


def of_streams_that_are_busy_again(streams):
    feed = Feed()
    feed.add(1)
    feed.add(ROWS, stream=0, work=0, flags=_PROVES_CONTEXT)
    feed.add(4093, stream=np.arange(4093) % streams)
    return feed.close()[0]


@pytest.mark.parametrize(
    ("cost", "few", "many"),
    [
        (of_kinds, 61, 60_013),
        (of_streams_of_a_process_that_moved, 5, 4093),
        (of_cgroups_of_a_process, 2, 257),
        (of_streams_that_are_waited_for_in_a_crowd, 5, 4093),
        (of_streams_that_are_busy_again, 1, 4093),
    ],
)
def test_a_row_costs_the_same(cost, few, many):
    assert min(cost(many) for _ in range(2)) < DEARER * min(cost(few) for _ in range(3))


def test_a_wait_that_lasts_holds_up_no_other_for_longer():
    """Each second one of many threads returns from a wait that began with the first."""
    feed, costs = Feed(), []
    feed.add(1)
    for second in range(40):
        took = np.zeros(ROWS, np.int64)
        took[ROWS // 2] = (100 + second) * SECOND
        cost = feed.add(ROWS, work=0, flags=_PROVES_STREAM, took=took)
        feed.at_ns += SECOND - ROWS * 1000
        before = time.thread_time()
        feed.native.take(feed.at_ns, feed.at_ns, False)
        costs.append(cost + time.thread_time() - before)
    assert min(costs[-5:]) < 4 * min(costs[:5])
