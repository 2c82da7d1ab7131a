"""What probes may cost the threads they sit in.

A recorded call costs its thread ``cost_ns``, measured on this host when the programs are loaded.
A thread earns ``budget_calls`` a second (bpf/common/share.bpf.h), and saves them. Once these are
spent, calls are recorded by chance; the others are counted at entry, and their returns are not
probed. Whoever calls so often that even this costs too much is a storm. Where only its
own tenant has the library mapped, the function loses its probes there, for longer each time: a
backoff, which decays when it is calm. Where others map it too, the calls go on being counted.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.agent.settings import REST_S

# The cost of a call that is only counted at entry, as a part of that of a recorded one.
ENTRY_PART: Final = 0.45
# What a thread earns of the budget. It may have saved that of ten seconds; with what it owes at
# most, it then spends no more than the budget over any twenty: (10 + 20 + 1.25) * 5/8 < 20.
EARNED_PART: Final = 5 / 8
_PATIENCE: Final = 5  # Seconds over budget before probes are detached.
_MULTIPLIER_MAX: Final = 16

Calls = dict[tuple[Tally, int], tuple[int, int]]


class Storm(NamedTuple):
    """A tenant, and the function that it calls too often."""

    owner: Tally
    function: int


@dataclass(slots=True)
class _Backoff:
    """When one storm is to be without probes, and for how long."""

    over: int = 0  # Seconds in a row over budget even at entry.
    multiplier: int = 1  # Backoff multiplier: doubles with each rest, halves with each calm one.
    back_at: float | None = None  # When its probes come back; None while they are attached.
    calm_at: float = 0.0  # When the multiplier falls next, if it stays calm.


@dataclass(slots=True)
class Budget:
    """Decides which tenants' functions lose their probes, and when they get them back."""

    share: float
    cost_ns: float
    rest_s: float = REST_S
    _backoffs: dict[Storm, _Backoff] = field(default_factory=lambda: defaultdict(_Backoff))

    @property
    def calls(self) -> int:
        """Recorded calls that a thread earns each second; 0 is no limit."""
        if not self.share or not self.cost_ns:
            return 0
        return max(1, int(self.share * EARNED_PART * 1e9 / self.cost_ns))

    @property
    def entry_ns(self) -> float:
        """What a call costs that is only counted."""
        return ENTRY_PART * self.cost_ns

    def look(self, calls: Calls, now: float) -> tuple[list[Storm], list[Storm]]:
        """After each second: the storms to detach, and those to attach again."""
        if not self.calls:
            return [], []
        # The unmeasured part of a thread's calls is 1 - earned / rate; few never return.
        storms = sorted(
            Storm(*who)
            for who, (count, unmeasured) in calls.items()
            if unmeasured > max(count * (1 - ENTRY_PART * EARNED_PART), self.calls)
        )
        gone = [storm for storm in storms if self._detaches(self._backoffs[storm], now)]
        back = [s for s, b in self._backoffs.items() if b.back_at is not None and now >= b.back_at]
        for storm in back:
            self._backoffs[storm].back_at = None
            self._backoffs[storm].calm_at = now + self.rest_s
        for storm in [s for s in self._backoffs if s not in storms]:
            self._calm(storm, self._backoffs[storm], now)
        return gone, back

    def _detaches(self, backoff: _Backoff, now: float) -> bool:
        if backoff.back_at is not None:
            return False
        backoff.over += 1
        if backoff.over < _PATIENCE:
            return False
        backoff.over = 0
        backoff.back_at = now + backoff.multiplier * self.rest_s
        backoff.multiplier = min(2 * backoff.multiplier, _MULTIPLIER_MAX)
        return True

    def _calm(self, storm: Storm, backoff: _Backoff, now: float) -> None:
        """It kept within its budget this second."""
        backoff.over = 0
        if backoff.back_at is not None or now < backoff.calm_at:
            return
        backoff.multiplier //= 2
        backoff.calm_at = now + self.rest_s
        if not backoff.multiplier:
            del self._backoffs[storm]
