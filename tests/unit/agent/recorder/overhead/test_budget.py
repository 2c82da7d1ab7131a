"""When probes go, and when they come back."""

from cotenant.agent.recorder.overhead.budget import Budget
from cotenant.agent.recorder.samplers.losses import Tally

LOUD = Tally("cuda", 1, 0, 0)
MODERATE = Tally("cuda", 2, 0, 0)
LAUNCH, COPY = 10, 20


def storm(budget, **more):
    return {(LOUD, LAUNCH): (200_000, 190_000), **more}


def test_a_share_of_a_second_is_so_many_calls():
    assert Budget(0.05, 2_000.0).calls == 25_000
    assert Budget(0.0, 2_000.0).calls == 0


def test_a_lasting_storm_loses_its_probes_and_gets_them_back():
    budget = Budget(0.05, 2_000.0)
    calls = storm(budget)
    said = [budget.look(calls, now) for now in range(5)]
    assert said == [([], [])] * 4 + [([LAUNCH], [])]
    assert [budget.look({}, now) for now in range(5, 34)] == [([], [])] * 29
    assert budget.look({}, 34) == ([], [LAUNCH])


def test_a_storm_that_goes_on_rests_longer_each_time():
    budget = Budget(0.05, 2_000.0)
    gone_at, back_at, resting = [], [], False
    for now in range(300):
        gone, back = budget.look({} if resting else storm(budget), now)
        resting = (resting or bool(gone)) and not back
        gone_at += [now] * len(gone)
        back_at += [now] * len(back)
    assert [back - gone for gone, back in zip(gone_at, back_at, strict=False)] == [30, 60, 120]


def test_probes_stay_while_somebody_calls_at_a_moderate_rate():
    budget = Budget(0.05, 2_000.0)
    calls = storm(budget) | {(MODERATE, LAUNCH): (1_000, 0)}
    assert [budget.look(calls, now) for now in range(20)] == [([], [])] * 20


def test_a_short_storm_is_borne():
    budget = Budget(0.05, 2_000.0)
    for now in range(50):
        calls = storm(budget) if now % 4 else {(LOUD, COPY): (10, 0)}
        assert budget.look(calls, now) == ([], [])
