"""What is chosen on this kernel: as asked, or as a trial tells."""

import os

import pytest

from cotenant.errors import Unsupported, UsageError
from cotenant.probes import features
from cotenant.probes.attach import Method
from cotenant.probes.features import Trial, choose_method, choose_stepping
from cotenant.probes.sites import Stepping


@pytest.mark.parametrize(
    ("trial", "chosen"),
    [
        (Trial(None, 1000, 2000), Stepping.ROWS),
        (Trial(None, 1000, 2001), Stepping.NONE),
        (Trial("does not work"), Stepping.NONE),
    ],
)
def test_functions_are_single_stepped_unasked_only_where_it_costs_twice_as_much_at_most(
    trial: Trial, chosen: Stepping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "attempt", lambda *_: trial)
    assert choose_stepping("auto", Method.SESSION) is chosen
    assert choose_stepping("any", Method.SESSION) is Stepping.ALL
    assert choose_stepping("emulated", Method.SESSION) is Stepping.NONE


def works(monkeypatch: pytest.MonkeyPatch, *methods: Method) -> None:
    """A kernel on which only these methods work."""
    reasons = {method: None if method in methods else f"no {method}" for method in Method}
    monkeypatch.setattr(features, "attempt", lambda method, _: Trial(reasons[method]))


@pytest.mark.parametrize(
    ("working", "chosen"),
    [
        (tuple(Method), Method.SESSION),
        ((Method.PAIR, Method.MULTI), Method.MULTI),
        ((Method.PAIR,), Method.PAIR),
    ],
)
def test_the_best_method_that_works_is_chosen(
    working: tuple[Method, ...], chosen: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    works(monkeypatch, *working)
    assert choose_method(None) is chosen


def test_a_method_that_was_asked_for_is_used_or_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works(monkeypatch, Method.SESSION, Method.PAIR)
    assert choose_method("pair") is Method.PAIR
    with pytest.raises(Unsupported, match="--attach multi does not work on this kernel: no multi"):
        choose_method("multi")
    with pytest.raises(UsageError, match="--attach ptrace: unknown; choose session, multi or pair"):
        choose_method("ptrace")


def test_a_kernel_on_which_nothing_works_is_called_too_old_only_if_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works(monkeypatch)
    with pytest.raises(Unsupported) as caught:
        choose_method(None)
    assert str(caught.value) == "no pair"
    monkeypatch.setattr(features, "_OLDEST", (1000, 0))
    with pytest.raises(Unsupported) as caught:
        choose_method(None)
    release = os.uname().release
    assert str(caught.value) == f"Linux {release} is too old, 1000.0 is needed (no pair)"
