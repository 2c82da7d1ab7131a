"""Functions rest only where nobody else has their file mapped."""

from types import SimpleNamespace
from typing import Any

from cotenant.agent.helper.libraries.resting import Resting
from cotenant.probes.inodes import Inode

FILE = Inode(1, 23, 0)
STORM = "/docker/" + "a" * 64
OTHER = "/docker/" + "b" * 64
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
    assert resting.settle(FILE, plan(LAUNCH, COPY))
    assert not resting.settle(FILE, plan(LAUNCH, COPY))
    assert resting.of(FILE) == {LAUNCH}
    report = resting.report(done=True)
    assert (report.number, report.done) == (3, True)
    assert [blind[:2] for blind in report.blind] == [(STORM, ("cuda",))]
    resting.ask({}, 4)
    assert resting.settle(FILE, plan(LAUNCH, COPY))
    assert (resting.of(FILE), resting.report(done=True).blind) == (frozenset(), ())
    assert not resting


def test_a_file_that_others_map_does_not_rest() -> None:
    mapped = {STORM, OTHER}
    resting = Resting(lambda _: {FILE: mapped})
    resting.ask({STORM: (LAUNCH,)}, 1)
    assert not resting.settle(FILE, plan(LAUNCH))
    assert resting.report(done=True).blind == ()
    mapped.remove(OTHER)
    assert resting.settle(FILE, plan(LAUNCH))
    mapped.add(OTHER)
    assert resting.knows(FILE.number)
    assert resting.disturbs(FILE.number, OTHER)
    assert not resting.disturbs(FILE.number, STORM)
    assert [tenant for tenant, _ in resting.foreign(FILE)] == [OTHER]
    assert resting.settle(FILE, plan(LAUNCH))
    assert resting.of(FILE) == frozenset()


def test_nothing_of_another_tenant_rests() -> None:
    resting = Resting(lambda _: {FILE: {OTHER}})
    resting.ask({STORM: (LAUNCH,)}, 1)
    assert not resting.settle(FILE, plan(LAUNCH))
