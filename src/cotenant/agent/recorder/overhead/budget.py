"""What probes may cost the threads they sit in.

A recorded call costs its thread ``cost_ns``, measured on this host when the programs are loaded.
Within one second a thread is recorded in full until its calls have cost ``share`` of that second;
then its calls are counted at entry, and their returns are not probed (``budget_calls`` in
bpf/common/total.h). A function whose callers are all over budget even so loses its probes, for
longer each time: a backoff. They stay while any tenant calls it at a moderate rate, since its calls
are rows.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.agent.settings import REST_S

# The cost of a call that is only counted at entry, as a part of that of a recorded one.
ENTRY_PART: Final = 0.45
_PATIENCE: Final = 5  # Seconds over budget before probes are detached.
_MULTIPLIER_MAX: Final = 16

Calls = dict[tuple[Tally, int], tuple[int, int]]


@dataclass(slots=True)
class _Backoff:
    """When one function's probes are detached, and for how long."""

    over: int = 0  # Seconds in a row in which every caller was over budget even at entry.
    multiplier: int = 1  # Backoff multiplier; doubles with each rest.
    back_at: float | None = None  # When its probes come back; None while they are attached.


@dataclass(slots=True)
class Budget:
    """Decides which functions lose their probes, and when they get them back."""

    share: float
    cost_ns: float
    rest_s: float = REST_S
    _backoffs: dict[int, _Backoff] = field(default_factory=lambda: defaultdict(_Backoff))

    @property
    def calls(self) -> int:
        """Calls of a thread that are recorded in full each second; 0 is all."""
        return max(1, int(self.share * 1e9 / self.cost_ns)) if self.share and self.cost_ns else 0

    def look(self, calls: Calls, now: float) -> tuple[list[int], list[int]]:
        """After each second: the functions to detach, and those to attach again."""
        if not self.calls:
            return [], []
        moderate, storming = set(), set()
        for (_, function), (count, unmeasured) in calls.items():
            # The unmeasured part of a thread's calls is 1 - budget / rate.
            if unmeasured > count * (1 - ENTRY_PART):
                storming.add(function)
            elif count:
                moderate.add(function)
        for function in [f for f in self._backoffs if f not in storming - moderate]:
            self._backoffs[function].over = 0
        gone = [f for f in sorted(storming - moderate) if self._detaches(self._backoffs[f], now)]
        back = [f for f, s in self._backoffs.items() if s.back_at is not None and now >= s.back_at]
        for function in back:
            self._backoffs[function].back_at = None
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
