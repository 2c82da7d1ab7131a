"""Holes become rows of losses: whose, from when to when, and why."""

import time

import pyarrow as pa

from cotenant.agent.protocol.reports import (
    AttachGap,
    Blind,
    Rested,
    RunsMissed,
    Unprobed,
    WorkPassedOver,
)
from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.identity.ledger import Ledger
from cotenant.schema.families import FAMILIES
from cotenant.schema.holes import LATE, MANGLED, OVER_BUDGET, REFUSED, RUNS_LEFT_OUT, UNSENT

S = 1_000_000_000
WHOSE = "/docker/" + "a" * 64


def ledger() -> Ledger:
    made = Ledger("node", "boot")
    made.born(0, 7, WHOSE)
    return made


def told(holes: Holes, now_ns: int) -> list[tuple]:
    rows = holes.sample(now_ns)
    names = ("reason", "family", "cgroup_id", "from_ns", "to_ns", "unseen")
    return [tuple(row[name] for name in names) for row in rows.to_pylist()] if rows else []


def test_a_hole_is_told_once_with_its_tenant():
    book = ledger()
    holes = Holes(book)
    holes.add(LATE, ("cuda", "nccl"), WHOSE, 3, 17, 5)
    owner = book.cgroup_id(0, 7)
    assert told(holes, S) == [
        ("probes came late", "cuda", owner, 3, 17, 5),
        ("probes came late", "nccl", owner, 3, 17, None),
    ]
    assert told(holes, 2 * S) == []
    (warning,) = holes.warnings
    assert warning == "cuda and nccl events of aaaaaaaaaaaa missing for 0.000 s: probes came late"


def test_a_warning_names_the_tenant_however_it_was_told():
    book = ledger()
    holes = Holes(book)
    holes.add(LATE, ("cuda",), WHOSE, 0, S)
    holes.add(OVER_BUDGET, ("cuda",), book.cgroup_id(0, 7), 0, S)
    holes.add(REFUSED, ("cuda",), None, 0, S)
    holes.sample(S)
    named = ["a" * 12, "a" * 12, "some tenant"]
    assert [words.split(" missing")[0] for words in holes.warnings] == [
        f"cuda events of {name}" for name in named
    ]


def test_pieces_that_overlap_are_one_row_and_far_too_many_are_one_too():
    holes = Holes(ledger())
    for start in (0, 5, 30):
        holes.add(LATE, ("cuda",), WHOSE, start, start + 10, 1)
    assert [row[3:] for row in told(holes, S)] == [(0, 15, 2), (30, 40, 1)]
    for start in range(0, 1000, 10):
        holes.add(LATE, ("cuda",), WHOSE, start, start + 1, 1)
    rows = told(holes, S)
    assert len(rows) == 16
    assert (rows[-1][4], sum(row[5] for row in rows)) == (991, 100)


def test_a_path_that_the_ledger_does_not_know_yet_waits_and_then_is_nobodys():
    book = ledger()
    holes = Holes(book)
    holes.add(LATE, ("cuda",), "/late", S, 2 * S)
    holes.add(LATE, ("cuda",), "/never", S, 2 * S)
    assert told(holes, 3 * S) == []
    book.born(0, 11, "/late")
    assert [row[2] for row in told(holes, 4 * S)] == [book.cgroup_id(0, 11)]
    assert [row[2] for row in told(holes, 8 * S)] == [book.unknown_id]


def test_what_lasts_is_told_each_second_until_it_is_closed_or_its_tenant_gone():
    book = ledger()
    holes = Holes(book)
    holes.open(OVER_BUDGET, ("cuda",), None, S)
    holes.open(REFUSED, ("cuda",), WHOSE, S)
    holes.open(REFUSED, ("cuda",), WHOSE, S + 5)
    assert [row[3:5] for row in told(holes, 2 * S)] == [(S, 2 * S)] * 2
    holes.close(OVER_BUDGET, ("cuda",), None, 2 * S + 7)
    book.removed(0, 7, 2 * S + 9)
    assert [row[3:5] for row in told(holes, 3 * S)] == [
        (2 * S, 2 * S + 7),
        (2 * S, 2 * S + 9),
    ]
    assert told(holes, 4 * S) == []


def test_reports_and_counters_become_holes():
    book = ledger()
    holes = Holes(book)
    clock = WallClock(lambda: 100)
    clock.sample()
    spots = BlindSpots(holes, clock)
    spots.attach_gap(AttachGap(WHOSE, "/lib/libnccl.so.2", 3, 5, probed=True, kinds=("nccl",)))
    spots.attach_gap(AttachGap("?", "/lib/libcuda.so.1", 3, 5, probed=False))
    owner = book.cgroup_id(0, 7)
    assert told(holes, S) == [
        ("probes came late", "nccl", owner, 103, 105, None),
        ("never probed", "cuda", book.unknown_id, 103, 105, None),
        ("never probed", "nccl", book.unknown_id, 103, 105, None),
    ]
    spots.counted({"no_thread": 3, "no_sched": 4}, {}, S)
    spots.counted({"no_thread": 7, "no_sched": 4, "request_full": 2, "unreadable": 9}, {}, 2 * S)
    spots.counted({"no_thread": 7, "no_sched": 4, "request_full": 2, "unreadable": 9}, {}, 3 * S)
    counted = told(holes, 3 * S)
    assert [row[0] for row in counted if row[1] == "host"] == ["no room for threads"]
    assert [(row[0], *row[3:]) for row in counted if row[1] in ("cuda", "io")] == [
        ("no room for threads", S, 2 * S, 7),
        ("no room for requests", S, 2 * S, 2),
    ]
    spots.runs_missed(RunsMissed({"io_done": 5}))
    spots.runs_missed(RunsMissed({"io_done": 12, "task_exit": 2}))
    found = told(holes, 1 << 62)
    assert [(row[0], row[5]) for row in found if row[1] == "io"] == [
        ("runs left out by the kernel", 12), ("facts lost", None),
    ]  # fmt: skip
    assert {row[1] for row in found if row[0] == "facts lost"} == set(FAMILIES)


def test_what_one_tenant_had_no_room_for_is_its_own_hole():
    book = ledger()
    holes = Holes(book)
    spots = BlindSpots(holes, WallClock())
    full = {"uncounted": {WHOSE: 5}, "captures": {WHOSE: 3}, "frames": {WHOSE: 2, "?": 1}}
    spots.counted({"totals_full": 5, "deep_call": 3}, full, S)
    more = full | {"uncounted": {WHOSE: 7}, "totals": {WHOSE: 9}}
    spots.counted({"totals_full": 7, "deep_call": 3}, more, 2 * S)
    owner = book.cgroup_id(0, 7)
    assert sorted(row[:1] + row[2:] for row in told(holes, 2 * S) if row[1] == "cuda") == sorted([
        ("calls nested too deep", owner, S, S, 2),
        ("calls nested too deep", book.unknown_id, S, S, 1),
        ("no room for totals", owner, S, 2 * S, 7),
        ("no room for captures", owner, S, S, None),
    ])  # fmt: skip


def test_names_that_stay_mangled_and_rows_that_nothing_counts_are_holes_of_their_tenant():
    book = ledger()
    holes = Holes(book)
    spots = BlindSpots(holes, WallClock())
    spots.counted({}, {"mangled": {WHOSE: 5}, "unsent": {WHOSE: 7}}, S)
    found = told(holes, S)
    assert {row[2] for row in found} == {book.cgroup_id(0, 7)}
    assert {row[1] for row in found if row[0] == UNSENT.name} == set(FAMILIES)
    assert {row[1] for row in found if row[0] == MANGLED.name} == {"cuda"}
    # Every table of these families lacks rows; names are lacking where there are any.
    assert UNSENT.tables is None
    assert MANGLED.tables is not None


def test_calls_that_lack_a_communicator_that_was_refused_earlier_are_a_hole_of_their_own_time():
    book = ledger()
    holes = Holes(book)
    spots = BlindSpots(holes, WallClock())
    refused = {"communicators": {WHOSE: 1}}
    for second, missed in ((1, 0), (100, 0), (101, 5), (102, 5)):
        spots.counted({}, refused | {"communicators_missed": {WHOSE: missed}}, second * S)
    owner = book.cgroup_id(0, 7)
    assert [row[:5] for row in told(holes, 102 * S) if row[1] == "nccl"] == [
        ("facts lost", "nccl", owner, S, S),
        ("facts lost", "nccl", owner, 100 * S, 101 * S),
    ]


def test_what_is_told_under_another_or_nobody_is_a_hole_of_whose_it_is():
    book = ledger()
    holes = Holes(book)
    spots = BlindSpots(holes, WallClock())
    refused = {"bios": 23, "closed_flows": 29, "processes": 31, "births": 37}
    spots.counted({}, {name: {WHOSE: count} for name, count in refused.items()}, S)
    found = told(holes, S)
    assert {row[:2] + row[5:] for row in found} == {
        ("no room for requests", "io", None),
        ("no room for connections", "tcp", None),
        ("facts lost", "cuda", None),
        ("facts lost", "nccl", None),
    }
    assert {row[2] for row in found} == {book.cgroup_id(0, 7)}


def test_a_state_that_is_told_anew_opens_and_closes_holes():
    book = ledger()
    holes = Holes(book)
    clock = WallClock(lambda: 0)
    clock.sample()
    spots = BlindSpots(holes, clock)
    owner = book.cgroup_id(0, 7)
    spots.unprobed(Unprobed((Blind(WHOSE, ("cuda",), S), Blind("?", ("nccl",), S)), S))
    spots.rested(Rested(1, False, (Blind(WHOSE, ("cuda",), S + 3),), S + 5))
    assert sorted(told(holes, 2 * S)) == [
        ("functions refused", "cuda", owner, S, 2 * S, None),
        ("functions refused", "nccl", book.unknown_id, S, 2 * S, None),
        ("over budget", "cuda", owner, S + 3, 2 * S, None),
    ]
    spots.rested(Rested(1, True, (), 2 * S + 7))
    spots.unprobed(Unprobed((Blind(WHOSE, ("cuda",), S),), 2 * S + 9))
    assert [row[:5] for row in sorted(told(holes, 3 * S))] == [
        ("functions refused", "cuda", owner, 2 * S, 3 * S),
        ("functions refused", "nccl", book.unknown_id, 2 * S, 2 * S + 9),
        ("over budget", "cuda", owner, 2 * S, 2 * S + 7),
    ]
    spots.passed_over(WorkPassedOver({"mappings": {WHOSE: 3, "lost": 1}, "names": {"/x": 1}}))
    found = [row for row in told(holes, 1 << 62) if row[1] == "nccl"]
    assert [(row[0], row[2]) for row in sorted(found)] == [
        ("mappings lost", book.unknown_id), ("too much to look at", owner),
    ]  # fmt: skip


def test_rows_without_a_kernel_name_are_counted_by_tenant():
    holes = Holes(ledger())
    spots = BlindSpots(holes, WallClock())
    names = ["gemm", "unknown@?+0x5", "unknown@?+0x7", "[sync]", "unknown@x"]
    spots.unnamed(
        pa.table(
            {
                "kernel_name": pa.array(names).dictionary_encode(),
                "cgroup_id": [1, 1, 2, 2, 1],
                "timestamp_ns": [10, 11, 12, 13, 14],
                "weight": pa.array([1, 1, 5, 1, 2], pa.int32()),
            }
        )
    )
    assert [row[2:] for row in told(holes, S)] == [(1, 11, 14, 3), (2, 12, 12, 5)]


def test_each_kind_of_event_that_is_missing_is_named_to_whoever_records():
    holes = Holes(ledger())
    for family in ("io", "tcp", "io"):
        holes.add(RUNS_LEFT_OUT, (family,), None, 0, S)
        holes.sample(2 * S)
    assert [words.partition(" events")[0] for words in holes.warnings] == ["io", "tcp"]


def test_facts_whose_owner_is_known_late_were_lost_when_they_were_left_out():
    book = ledger()
    holes = Holes(book)
    spots = BlindSpots(holes, WallClock())
    spots.facts_left_out({}, more=False)
    before_ns = time.time_ns()
    spots.facts_left_out({}, more=True)
    spots.facts_left_out({"unknown": 7}, more=False)
    (cuda, _) = told(holes, time.time_ns())
    assert cuda[:3] == ("facts lost", "cuda", book.unknown_id)
    assert cuda[3] <= before_ns <= cuda[4]
    assert cuda[5] == 7
