"""Which tenants' events time nothing, because their functions are without probes."""

from cotenant.agent.protocol.reports import Blind, Rested
from cotenant.agent.recorder.overhead.resting_tenants import RestingTenants

A, B = 7, 8
BLIND = (Blind("/b", ("cuda",), 3),)


class Told(dict[int, int]):
    """The kernel's map."""

    def update(self, key: bytes, value: bytes) -> None:
        self[int.from_bytes(key, "little")] = int.from_bytes(value, "little")


def test_only_those_who_rest_are_told() -> None:
    resting = RestingTenants(told := Told())
    asked = resting.ask({"/a": (1,), "/b": (1,)}, frozenset({A, B}))
    assert told == {A: 1, B: 1}
    resting.rested(Rested(asked.number, True, BLIND))
    assert told == {A: 1, B: 1}
    asked = resting.ask({"/b": (1,)}, frozenset({B}))
    resting.rested(Rested(asked.number - 1, True, BLIND))
    resting.rested(Rested(asked.number, False, BLIND))
    assert told == {A: 1, B: 1}
    resting.rested(Rested(asked.number, True, BLIND))
    assert told == {A: 2, B: 1}


def test_a_file_that_others_map_does_not_rest() -> None:
    resting = RestingTenants(told := Told())
    asked = resting.ask({"/a": (1,)}, frozenset({A}))
    resting.rested(Rested(asked.number, True, ()))
    assert told == {A: 2}
