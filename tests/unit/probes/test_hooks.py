"""Which hooks of a family are placed where a kernel refuses some of its programs."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant.errors import Unsupported
from cotenant.probes import hooks
from cotenant.probes.attach import Method
from cotenant.probes.hooks import Hooks
from cotenant.probes.kernel import hooks_of
from cotenant.probes.programs import Programs, Sizes

Chosen = tuple[list[str], dict[str, str]]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Chosen]:
    """The programs that are placed, and what is said of the others, where some are refused."""

    def chosen(family: str, *refused: str) -> Chosen:
        def load(_: Programs, wanted: tuple[Any, ...], *more: object, trial: bool = False) -> None:
            if any(hook.program in refused for hook in wanted):
                raise Unsupported("not here")

        monkeypatch.setattr(hooks, "_load", load)
        placed = Hooks()
        taken = hooks._loadable(Programs(Method.PAIR), hooks_of(family), Sizes(), {}, placed)
        return [hook.program for hook in taken], placed.refused

    return chosen


def programs(family: str) -> list[str]:
    return [hook.program for hook in hooks_of(family)]


def test_without_a_refusal_nothing_stands_in(choose: Callable[..., Chosen]) -> None:
    taken, refused = choose("host")
    assert taken == [name for name in programs("host") if name != "host_switch_reading"]
    assert refused == {}


def test_a_program_that_stands_in_makes_up_for_the_first(choose: Callable[..., Chosen]) -> None:
    taken, refused = choose("host", "host_switch")
    assert taken == [name for name in programs("host") if name != "host_switch"]
    assert refused == {}


def test_an_optional_hook_costs_only_what_it_tells(choose: Callable[..., Chosen]) -> None:
    taken, refused = choose("io", "io_dirty")
    assert taken == [name for name in programs("io") if name != "io_dirty"]
    assert refused == {"io_dirty": "not recorded: who dirtied what is written (not here)"}


def test_without_a_required_hook_the_family_is_left_out(choose: Callable[..., Chosen]) -> None:
    taken, refused = choose("net", "net_recv")
    assert taken == []
    assert refused == {"net_recv": "not recorded: no net events (not here)"}
    taken, refused = choose("host", "host_switch", "host_switch_reading")
    assert taken == []
    assert refused["host_switch"] == "not recorded: no host events (not here)"


def test_programs_that_are_there_already_are_not_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "_load", None)
    first = [name for name in programs("tcp") if name != "tcp_retransmit_sent"]
    loaded = Programs(Method.PAIR, programs=dict.fromkeys(first, 3))
    taken = hooks._loadable(loaded, hooks_of("tcp"), Sizes(), {}, Hooks())
    assert [hook.program for hook in taken] == first
