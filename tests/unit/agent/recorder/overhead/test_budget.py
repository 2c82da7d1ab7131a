"""When probes go, and when they come back."""

from cotenant.agent.recorder.overhead.budget import Budget, Storm
from cotenant.agent.recorder.samplers.losses import Tally

LOUD = Tally("cuda", 1, 0, 0)
MODERATE = Tally("cuda", 2, 0, 0)
LAUNCH, COPY = 10, 20
HERS = Storm(LOUD, LAUNCH)


def storm(budget, **more):
    return {(LOUD, LAUNCH): (200_000, 190_000), **more}


def test_a_share_of_a_second_is_so_many_calls():
    assert Budget(0.05, 2_000.0).calls == 25_000 * 5 // 8
    assert Budget(0.0, 2_000.0).calls == 0


def test_a_lasting_storm_loses_its_probes_and_gets_them_back():
    budget = Budget(0.05, 2_000.0)
    calls = storm(budget)
    said = [budget.look(calls, now) for now in range(5)]
    assert said == [([], [])] * 4 + [([HERS], [])]
    assert [budget.look({}, now) for now in range(5, 34)] == [([], [])] * 29
    assert budget.look({}, 34) == ([], [HERS])


def rests(budget, until, storms):
    """How long each rest is, where ``storms`` says when somebody storms while it is seen."""
    gone_at, back_at, resting = [], [], False
    for now in range(until):
        gone, back = budget.look(storm(budget) if storms(now) and not resting else {}, now)
        resting = (resting or bool(gone)) and not back
        gone_at += [now] * len(gone)
        back_at += [now] * len(back)
    return [back - gone for gone, back in zip(gone_at, back_at, strict=False)]


def test_a_storm_that_goes_on_rests_longer_each_time():
    assert rests(Budget(0.05, 2_000.0), 300, lambda now: True) == [30, 60, 120]


def test_a_rest_is_short_again_after_calm():
    # The first three rests end after 229 s; then it is calm for as long as it takes.
    calm = lambda now: now < 229 or now > 229 + 5 * 30  # noqa: E731
    assert rests(Budget(0.05, 2_000.0), 450, calm) == [30, 60, 120, 30]


def test_what_another_tenant_does_neither_costs_nor_keeps_anybodys_probes():
    budget = Budget(0.05, 2_000.0)
    calls = storm(budget) | {(MODERATE, LAUNCH): (1_000, 0)}
    gone = [budget.look(calls, now)[0] for now in range(5)]
    assert gone == [[], [], [], [], [HERS]]


def test_calls_that_never_return_are_no_storm():
    budget = Budget(0.05, 2_000.0)
    assert [budget.look({(LOUD, LAUNCH): (101, 101)}, now) for now in range(9)] == [([], [])] * 9


def test_a_short_storm_is_borne():
    budget = Budget(0.05, 2_000.0)
    for now in range(50):
        calls = storm(budget) if now % 4 else {(LOUD, COPY): (10, 0)}
        assert budget.look(calls, now) == ([], [])
