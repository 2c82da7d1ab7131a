"""What probes may cost the threads they sit in.

A recorded call costs its thread ``cost_ns``, measured on this host when the programs are loaded.
Within one second a thread is recorded in full until its calls have cost ``share`` of that second;
then its calls are counted at entry, and their returns are not probed (``budget_calls`` in
bpf/common/total.h). A function that costs too much even so, with everybody who calls it, loses its
probes for a while; where anybody calls it at a moderate rate they stay, for his rows.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.agent.settings import REST_S

# Without its return, without arguments and row, a call costs this much of a recorded one.
ENTRY_PART: Final = 0.45
_PATIENCE: Final = 5  # Seconds over budget before probes go.
_REST_LONGER: Final = 16  # Each time twice as long, and no longer than this many times.

Calls = dict[tuple[Tally, int], tuple[int, int]]


@dataclass(slots=True)
class _Backoff:
    """One function's standing."""

    over: int = 0  # Windows in a row in which everybody was over budget at entry, too.
    rests: int = 1  # For so many times the first rest it goes next.
    back_at: float | None = None  # When its probes come back; None while they are there.


@dataclass(slots=True)
class Budget:
    """Decides which functions lose their probes, and when they get them back."""

    share: float
    cost_ns: float
    rest_s: float = REST_S
    _sites: dict[int, _Backoff] = field(default_factory=lambda: defaultdict(_Backoff))

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
            # What of a thread's calls is unmeasured tells its rate: 1 - budget / rate.
            if unmeasured > count * (1 - ENTRY_PART):
                storming.add(function)
            elif count:
                moderate.add(function)
        for function in [f for f in self._sites if f not in storming - moderate]:
            self._sites[function].over = 0
        gone = [f for f in sorted(storming - moderate) if self._goes(self._sites[f], now)]
        back = [f for f, s in self._sites.items() if s.back_at is not None and now >= s.back_at]
        for function in back:
            self._sites[function].back_at = None
        return gone, back

    def _goes(self, site: _Backoff, now: float) -> bool:
        if site.back_at is not None:
            return False
        site.over += 1
        if site.over < _PATIENCE:
            return False
        site.over = 0
        site.back_at = now + site.rests * self.rest_s
        site.rests = min(2 * site.rests, _REST_LONGER)
        return True
