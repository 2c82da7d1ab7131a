"""Functions rest only where nobody else has their file mapped."""

from types import SimpleNamespace
from typing import Any

from cotenant.agent.helper.fair_queue import ENDED
from cotenant.agent.helper.libraries.resting import Resting
from cotenant.agent.protocol.reports import Blind
from cotenant.probes.inodes import Inode

FILE = Inode(1, 23, 0)
STORM = "/docker/" + "a" * 64
OTHER = "/docker/" + "b" * 64
THIRD = "/docker/" + "c" * 64
LAUNCH, COPY, REDUCE = 7, 8, 9


def plan(*functions: int) -> Any:
    placed = [
        SimpleNamespace(function=SimpleNamespace(id=n, family="nccl" if n == REDUCE else "cuda"))
        for n in functions
    ]
    return SimpleNamespace(placed=placed)


def test_the_storms_own_file_rests_until_it_is_told_otherwise() -> None:
    resting = Resting(lambda _: {FILE: {STORM}})
    resting.ask({f"{STORM}/inner": (LAUNCH, REDUCE)}, 3)
    assert resting.settle(FILE, plan(LAUNCH, COPY)) == {STORM}
    assert resting.of(FILE) == {LAUNCH}
    assert resting.settled(FILE, resting.of(FILE)) == []
    assert not resting.settle(FILE, plan(LAUNCH, COPY))
    report = resting.report(done=True)
    assert (report.number, report.done) == (3, True)
    assert [blind[:2] for blind in report.blind] == [(STORM, ("cuda",))]
    resting.ask({}, 4)
    assert resting.settle(FILE, plan(LAUNCH, COPY)) == {STORM}
    assert resting.settled(FILE, resting.of(FILE)) == []
    assert (resting.of(FILE), resting.report(done=True).blind) == (frozenset(), ())
    assert not resting


def test_a_file_that_others_map_does_not_rest() -> None:
    mapped = {STORM, OTHER}
    resting = Resting(lambda _: {FILE: mapped})
    resting.ask({STORM: (LAUNCH,)}, 1)
    assert not resting.settle(FILE, plan(LAUNCH))
    assert resting.report(done=True).blind == ()
    mapped.remove(OTHER)
    assert resting.settle(FILE, plan(LAUNCH)) == {STORM}
    assert resting.settled(FILE, resting.of(FILE)) == []
    mapped.add(OTHER)
    assert resting.knows(FILE)
    assert resting.disturbs(FILE, OTHER)
    assert not resting.disturbs(FILE, ENDED)
    assert not resting.disturbs(Inode(8 << 20, FILE.number, 0), OTHER)  # Another file.
    assert not resting.disturbs(FILE, STORM)
    assert resting.settle(FILE, plan(LAUNCH)) == {OTHER}
    assert resting.of(FILE) == frozenset()
    assert [tenant for tenant, _ in resting.settled(FILE, resting.of(FILE))] == [OTHER]
    assert not resting.settle(FILE, plan(LAUNCH))
    assert resting.report(done=True).blind == ()


def test_until_probes_are_back_everybody_who_maps_their_file_is_told_to_be_without_them() -> None:
    mapped = {STORM}
    resting = Resting(lambda _: {FILE: mapped})
    resting.ask({STORM: (LAUNCH,)}, 1)
    resting.settle(FILE, plan(LAUNCH))
    resting.settled(FILE, resting.of(FILE))
    (rest,) = resting.report(done=True).blind
    mapped.add(OTHER)
    for _ in range(3):
        assert resting.settle(FILE, plan(LAUNCH)) == {OTHER}
        blind = resting.report(done=False).blind
        assert sorted(blind) == [rest, Blind(OTHER, ("cuda",), rest.since_ns)]
    # Whoever else comes has the same to do.
    assert not resting.disturbs(FILE, OTHER)
    assert resting.knows(FILE)
    assert resting.disturbs(FILE, THIRD)
    mapped.add(THIRD)
    assert resting.settle(FILE, plan(LAUNCH)) == {OTHER, THIRD}
    # When the rest is over as well.
    resting.ask({}, 2)
    assert resting.settle(FILE, plan(LAUNCH)) == {OTHER, THIRD}
    told = resting.settled(FILE, frozenset())
    assert sorted(told) == [(OTHER, rest.since_ns), (THIRD, rest.since_ns)]
    assert resting.report(done=True).blind == ()
    assert not resting


def test_what_is_placed_while_it_is_decided_otherwise_settles_nothing() -> None:
    mapped = {STORM}
    resting = Resting(lambda _: {FILE: mapped})
    resting.ask({STORM: (LAUNCH,)}, 1)
    resting.settle(FILE, plan(LAUNCH))
    without = resting.of(FILE)
    mapped.add(OTHER)
    resting.settle(FILE, plan(LAUNCH))
    assert resting.settled(FILE, without) == []
    assert not resting.is_settled(FILE)
    resting.forget(FILE)
    assert resting.is_settled(FILE)


def test_nothing_of_another_tenant_rests() -> None:
    resting = Resting(lambda _: {FILE: {OTHER}})
    resting.ask({STORM: (LAUNCH,)}, 1)
    assert not resting.settle(FILE, plan(LAUNCH))
