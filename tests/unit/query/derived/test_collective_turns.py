"""Collectives: which calls of several ranks are one, wherever a recording or a window begins."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore

MS = 1_000_000
PERIOD = 100 * MS
TURNS = 43


class Job:
    """Two ranks that meet each 100 ms, the second 30 ms late."""

    def __init__(self, root):
        self.store = VirtualStore(root)

    def call(self, rank, at, **more):
        row = {"timestamp_ns": START_NS + at, "pid": 30 + rank, "op": "AllReduce", "rank": rank}
        row |= {"api": "ncclAllReduce", "duration_ns": 7, "nranks": 2, "comm_hash": 77}
        self.store.add("nccl_events", f"job/{rank}", row | {"result": 0} | more)

    def run(self, since=0, *, late=30 * MS, turns=TURNS, **more):
        """Calls of so many turns, but for those before ``since``."""
        for turn in range(turns):
            for rank, at in enumerate((turn * PERIOD, turn * PERIOD + late)):
                if at >= since:
                    self.call(rank, at, **more)

    def late(self, **window):
        """Per rank: of how many collectives it was the last of how many."""
        with Session(self.store.write(), **window) as session:
            rows = session.ask(find("late_ranks").render()).rows()
        return {
            rank: tuple(
                sum(row[name] for row in rows if row["rank"] == rank)
                for name in ("last", "collectives")
            )
            for rank in sorted({row["rank"] for row in rows})
        }


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path / "store")


def test_a_window_that_cuts_a_collective_accuses_nobody_else(job):
    job.run()
    cut = START_NS + 7 * PERIOD + 10 * MS
    until = START_NS + 17 * PERIOD + 10 * MS
    # The seventh began in the window, with its last rank; the seventeenth after it.
    assert job.late(from_ns=cut, to_ns=until) == {0: (0, 10), 1: (10, 10)}


def test_a_recording_that_begins_within_a_collective_accuses_nobody_else(job):
    job.run(since=7 * PERIOD + 10 * MS)
    assert job.late() == {0: (0, TURNS - 8), 1: (TURNS - 8, TURNS - 8)}


def test_ranks_that_run_far_ahead_are_found_again(job):
    for step in range(11):
        for bucket in range(23):
            job.call(0, step * 1_000 * MS + bucket * MS)
            if (step, bucket) > (0, 13):
                job.call(1, step * 1_000 * MS + 300 * MS + bucket * MS)
    with Session(job.store.write()) as session:
        found = session.ask(
            "select a.timestamp_ns - b.timestamp_ns as late_ns, count(*) as times "
            "from collective_turns a join collective_turns b using (turn) "
            "where a.rank = 1 and b.rank = 0 group by late_ns"
        )
    assert found.rows() == [{"late_ns": 300 * MS, "times": 11 * 23 - 14}]


def test_a_rank_later_than_half_the_period_is_known_from_the_start(job):
    for rank in (0, 1):
        job.call(rank, 0, op="CommInitRank")
    job.run(late=70 * MS)
    assert job.late() == {0: (0, TURNS), 1: (TURNS, TURNS)}


def test_a_gap_between_recordings_shifts_nobody(job):
    job.store.recording(0)
    job.store.recording(20 * PERIOD + 10 * MS)
    for turn in range(TURNS):
        if not 10 <= turn <= 20:
            job.call(0, turn * PERIOD)
        if not 10 <= turn < 20:
            job.call(1, turn * PERIOD + 30 * MS)
    met = TURNS - 11
    assert job.late() == {0: (0, met), 1: (met, met)}
    with Session(job.store.root) as session:
        (row,) = session.ask(
            "select count(distinct turn) as turns, max(turn) as last from collective_turns"
        ).rows()
    assert row == {"turns": met + 1, "last": met + 1}


def test_an_operation_with_shed_rows_is_left_out(job):
    job.run()
    job.call(0, TURNS * PERIOD, weight=3)
    job.run(op="AllGather")
    job.run(comm_hash=79)
    assert job.late() == {0: (0, 2 * TURNS), 1: (2 * TURNS, 2 * TURNS)}


def test_a_communicator_with_lost_rows_is_left_out(job):
    job.run()
    loss = {"timestamp_ns": START_NS + PERIOD, "family": "nccl", "seen": 2, "stored": 1}
    job.store.add("losses", "job/0", loss | {"shed": 0, "lost": 1, "queued": 0})
    assert job.late() == {}


def test_a_session_of_one_tenant_has_no_call_of_another_whenever_it_was(job):
    job.run()
    with Session(job.store.write(), tenant="job/0", from_ns=START_NS + PERIOD) as session:
        for table in ("collective_turns", "whole.nccl_events"):
            found = session.ask(f"select distinct rank from {table}").rows()
            assert found == [{"rank": 0}]
