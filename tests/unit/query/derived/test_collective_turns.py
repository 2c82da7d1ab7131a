"""Collectives: which calls of several ranks are one, wherever a recording or a window begins."""

import pytest

from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.findings import stragglers
from cotenant.query.questions.loader import find
from cotenant.schema.holes import OF_NEW_PROCESSES, REASONS
from tests.virtual.device import START_NS
from tests.virtual.store import BOOT, VirtualStore

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

    def gap(self, whose, *, reason="over budget", family="nccl", from_=10, to=20):
        """Say that calls from one turn to another may be missing."""
        row = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
        times = [START_NS + turn * PERIOD for turn in (from_, to)]
        row |= {"from_ns": times[0], "to_ns": times[1], "timestamp_ns": times[1]}
        self.store.add("losses", whose, row | {"reason": reason, "family": family})

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


def test_calls_about_the_time_of_a_lost_row_are_left_out(job):
    job.run()
    loss = {"timestamp_ns": START_NS + PERIOD, "family": "nccl", "seen": 2, "stored": 1}
    job.store.add("losses", "job/0", loss | {"shed": 0, "lost": 1, "queued": 0})
    assert job.late() == {0: (0, TURNS - 1), 1: (TURNS - 1, TURNS - 1)}


def test_a_session_of_one_tenant_has_no_call_of_another_whenever_it_was(job):
    job.run()
    with Session(job.store.write(), tenant="job/0", from_ns=START_NS + PERIOD) as session:
        for table in ("collective_turns", "whole.nccl_events"):
            found = session.ask(f"select distinct rank from {table}").rows()
            assert found == [{"rank": 0}]


class Blind:
    """A job of which a hole, of whomever, may have hidden calls from the tenth turn on."""

    def __init__(self, job):
        self.job = job
        pod = {"container_id": "pod", "boot_id": BOOT}
        for rank in range(2):
            job.store.tenant(f"job/{rank}", **pod, cgroup_path=f"/pods/pod/{rank}")
        job.store.tenant("pod", **pod, cgroup_path="/pods/pod")
        job.store.tenant("other", cgroup_path="/pods/pod-2")
        job.store.tenant("unknown")
        for rank in range(2):
            job.call(rank, rank, op="CommInitRank")
        job.run()


@pytest.fixture
def blind(job):
    return Blind(job)


@pytest.mark.parametrize("whose", ["job/1", "pod", "unknown"])
def test_a_communicator_is_cut_at_a_gap_and_goes_on_after_it(blind, whose):
    blind.job.gap(whose)
    # Without the ten collectives that lie in the gap.
    assert blind.job.late() == {0: (0, TURNS - 10), 1: (TURNS - 10, TURNS - 10)}
    with Session(blind.job.store.root) as session:
        rows = session.ask(find("late_ranks").render()).rows()
    assert {(row["left_out"], row["left_out_because"]) for row in rows} == {(10, "coverage gap")}


def test_a_call_that_a_gap_hides_shifts_no_later_one(tmp_path):
    job = Job(tmp_path / "store")
    for rank in range(2):
        job.store.tenant(f"job/{rank}", boot_id=BOOT)
        job.call(rank, rank, op="CommInitRank")
    for turn in range(1, TURNS):
        job.call(0, turn * PERIOD)
        if turn != 15:  # Lost, in the gap.
            job.call(1, turn * PERIOD + 30 * MS)
    job.gap("job/1")
    assert job.late() == {0: (0, TURNS - 11), 1: (TURNS - 11, TURNS - 11)}


@pytest.mark.parametrize(
    ("whose", "seen"),
    [("job/0", TURNS - 10), ("pod", TURNS - 10), ("unknown", TURNS - 10), ("other", TURNS)],
)
def test_so_it_is_for_a_reader_of_one_tenant(blind, whose, seen):
    blind.job.gap(whose)
    root = blind.job.store.write()
    for guarded in (False, True):
        limits = QueryLimits(guarded=guarded)
        with Session(root, limits=limits, tenant="job/0") as session:
            (row,) = session.ask("select count(*) as turns from collective_turns").rows()
        assert row == {"turns": seen}


@pytest.mark.parametrize(
    "hole",
    [
        {"whose": "other"},
        {"whose": "pod", "family": "cuda"},
        {"whose": "pod", "from_": -20, "to": -10},
        {"whose": "pod", "from_": TURNS + 1, "to": TURNS + 2},
        # A process with rows is probed.
        *({"whose": "unknown", "reason": r.name} for r in OF_NEW_PROCESSES),
        *(
            {"whose": "pod", "reason": r.name}
            for r in REASONS.values()
            if r.tables is not None and r.op != "AllReduce"
        ),
    ],
    ids=str,
)
def test_a_gap_that_hides_no_call_of_a_communicator_leaves_all_in(blind, hole):
    blind.job.gap(**hole)
    assert blind.job.late() == {0: (0, TURNS), 1: (TURNS, TURNS)}


def test_calls_of_an_operation_without_a_probe_are_left_out(blind):
    blind.job.gap("pod", reason="no probe for AllReduce")
    assert blind.job.late() == {0: (0, TURNS - 10), 1: (TURNS - 10, TURNS - 10)}


def test_collectives_of_a_tenant_with_calls_that_are_not_recorded_are_left_out(job):
    job.run()
    row = {"timestamp_ns": START_NS + 7 * PERIOD, "op": "AllReduce", "api": "ncclAllReduce"}
    job.store.add("nccl_events", "job/0", row | {"weight": 100, "pid": None})
    root = job.store.write()
    with Session(root) as session:
        (row,) = session.ask(
            "select list(distinct left_out) as why, count(turn) as turns from collective_calls"
        ).rows()
    assert row == {"why": ["sampled"], "turns": 0}


@pytest.mark.parametrize("grouped", [False, True], ids=["call", "group"])
def test_a_rank_that_is_late_inside_its_call_is_late(job, grouped):
    for turn in range(TURNS):
        for rank, took in enumerate((MS, 31 * MS)):
            at, group = turn * PERIOD, {"group_id": turn} if grouped else {}
            if grouped:
                end = {"op": "GroupEnd", "duration_ns": took - 5, "comm_hash": None}
                job.call(rank, at + 5, **end, **group)
            job.call(rank, at, duration_ns=3 if grouped else took, **group)
    assert job.late() == {0: (0, TURNS), 1: (TURNS, TURNS)}
    with Session(job.store.root) as session:
        last, first = session.ask(find("late_ranks").render()).rows()
        (slow, *_) = session.ask(find("slow_collectives").render()).rows()
        (finding,) = stragglers.find(lambda sql: session.ask(sql).table)
    assert (last["late_ns"], last["held_up_ns"]) == (30 * MS, TURNS * 30 * MS)
    assert (first["late_ns"], first["held_up_ns"]) == (-30 * MS, None)
    assert (slow["late_ns"], slow["late_rank"]) == (30 * MS, 1)
    assert (finding.culprit, finding.cost_ns) == ("job/1 rank 1", TURNS * 30 * MS)
