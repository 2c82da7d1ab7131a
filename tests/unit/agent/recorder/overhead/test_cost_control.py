"""Once a second: what programs and helper are told when probes cost too much."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cotenant.agent.recorder.overhead.cost_control import CallCost, CostControl
from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.agent.settings import Settings

COST = CallCost(emulated_ns=1000, stepped_ns=5000)
LAUNCH = 23
TENANT = Tally("cuda", 7, 0, 0)


class Page:
    """What programs would read."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.divided: list[tuple[int, int]] = []

    def budget(self, calls: int) -> None:
        self.calls.append(calls)

    def divide(self, calling: int, raising: int) -> None:
        self.divided.append((calling, raising))


class Resting:
    """Who would rest, as the programs are told."""

    def ask(self, functions: dict[str, tuple[int, ...]], tenants: frozenset[int]) -> Any:
        return functions, tenants


def totals(calls: int, unmeasured: int) -> Any:
    counts = {(TENANT, LAUNCH): (calls, unmeasured)}
    return SimpleNamespace(calls=counts, tenants={TENANT: 77}, calling=2, raising=3)


def control(page: Page, asked: list[Any]) -> CostControl:
    settings = Settings(Path("store"), budget=0.05, budget_rest_s=30)
    return CostControl(
        page,  # type: ignore[arg-type]
        Resting(),  # type: ignore[arg-type]
        settings,
        COST,
        asked.append,
        lambda owner: f"/{owner.cgroup_id}",
    )


def test_the_ring_is_divided_among_those_who_called() -> None:
    page = Page()
    assert control(page, []).step(totals(7, 0), 0.0, stepped=False) == []
    assert page.divided == [(2, 3)]


def test_where_a_function_is_stepped_every_call_is_taken_to_be_as_dear() -> None:
    page = Page()
    costs = control(page, [])
    for stepped in (False, True, True):
        costs.step(totals(7, 0), 0.0, stepped=stepped)
    assert page.calls == [31_250, 6_250]


def test_probes_that_cost_too_much_go_and_come_back() -> None:
    asked: list[Any] = []
    costs = control(Page(), asked)
    storms = [costs.step(totals(60_000, 59_000), float(n), stepped=False) for n in range(5)]
    assert storms == [[], [], [], [], [(TENANT, LAUNCH)]]
    assert asked == [({"/7": (LAUNCH,)}, {77})]
    for now in (33.0, 34.0):
        assert costs.step(totals(0, 0), now, stepped=False) == []
    assert asked == [({"/7": (LAUNCH,)}, {77}), ({}, frozenset())]
