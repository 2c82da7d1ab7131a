"""Keeps what probes cost within the budget, and the ring fairly divided."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant.agent.protocol.requests import Request
from cotenant.agent.recorder.overhead.budget import Budget, Calls, Storm
from cotenant.agent.recorder.overhead.control_page import ControlPage
from cotenant.agent.recorder.overhead.resting_tenants import RestingTenants
from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.agent.settings import Settings


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a recorded call costs its thread on this host."""

    emulated_ns: float
    stepped_ns: float  # Where the kernel single-steps the probed instruction.

    def notes(self) -> dict[str, int]:
        """What ``sessions`` notes about it."""
        return {
            "call_cost_ns": round(self.emulated_ns),
            "stepped_call_cost_ns": round(self.stepped_ns),
        }


class WindowTotals(Protocol):
    """Who called what in the second that is over."""

    @property
    def calls(self) -> Calls:
        """Per tenant and function: calls, and those that were counted at entry only."""

    @property
    def tenants(self) -> Mapping[Tally, int]:
        """Whose they are, by the programs' number of the tenant."""

    @property
    def calling(self) -> int:
        """Tenants that called a GPU."""

    @property
    def raising(self) -> int:
        """Tenants that raised kernel events, summed over kinds of event."""


class CostControl:
    """Decides once a second, and tells programs and helper."""

    def __init__(
        self,
        page: ControlPage,
        tenants: RestingTenants,
        settings: Settings,
        cost: CallCost,
        ask: Callable[[Request], None],
        place: Callable[[Tally], str | None],
    ) -> None:
        self._page = page
        self._tenants = tenants
        self._budget = Budget(settings.budget, cost.emulated_ns, settings.budget_rest_s)
        self._cost = cost
        self._ask = ask
        self._place = place
        # And its tenant: the path of the cgroup, and the programs' number.
        self._resting: dict[Storm, tuple[str, int]] = {}
        page.budget(self._budget.calls)

    @property
    def entry_ns(self) -> float:
        """What a call costs that is only counted."""
        return self._budget.entry_ns

    def step(self, totals: WindowTotals, now: float, *, stepped: bool) -> list[Storm]:
        """One second is over; who calls too often, as of now.

        ``stepped`` says that some function is single-stepped. Which calls are is not known call by
        call, so all are taken to be.
        """
        self._page.divide(totals.calling, totals.raising)
        if stepped and self._budget.cost_ns < self._cost.stepped_ns:
            self._budget.cost_ns = self._cost.stepped_ns
            self._page.budget(self._budget.calls)
        gone, back = self._budget.look(totals.calls, now)
        before = dict(self._resting)
        for storm in back:
            self._resting.pop(storm, None)
        for storm in gone:
            if path := self._place(storm.owner):
                self._resting[storm] = path, totals.tenants[storm.owner]
        if self._resting != before:
            tenants = frozenset(tenant for _, tenant in self._resting.values())
            self._ask(self._tenants.ask(self._by_path(), tenants))
        return gone

    def _by_path(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, set[int]] = {}
        for storm, (path, _) in self._resting.items():
            found.setdefault(path, set()).add(storm.function)
        return {path: tuple(sorted(functions)) for path, functions in found.items()}
