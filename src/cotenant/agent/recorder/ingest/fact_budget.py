"""How much one tenant may tell us: a fact takes more time to learn than to make.

A call may make 64 facts, and nothing in the kernel ends that. What a tenant tells beyond its budget
is left out before anybody looks at it, and counted; its own names may be unknown for it.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant.schema.kinds import FACT_CGROUPS

# Eight processes that register 24,000 kernels each, at once.
_AT_ONCE: Final = 1 << 18
_EACH_S: Final = 1 << 16
_OWNERS_MAX: Final = 1 << 16

Cgroups = bytes  # Both ids, as facts have them.


@dataclass(slots=True)
class _Credit:
    left: float = _AT_ONCE
    as_of: float = 0.0


class FactBudget:
    """Each tenant's; until it is known whose a cgroup is, it counts as a tenant."""

    def __init__(self) -> None:
        self._accounts: dict[str | Cgroups, _Credit] = {}
        self._owners: dict[Cgroups, str] = {}
        self._strangers: set[Cgroups] = set()
        self._left_out: Counter[str | Cgroups] = Counter()
        self._lock = threading.Lock()

    def admit(self, facts: list[bytes], now: float) -> list[bytes]:
        """What is within the budgets; most often all."""
        keys = [fact[FACT_CGROUPS] for fact in facts]
        with self._lock:
            over = {key for key, count in Counter(keys).items() if not self._spend(key, count, now)}
        if not over:
            return facts
        return [fact for fact, key in zip(facts, keys, strict=True) if key not in over]

    def _spend(self, key: Cgroups, count: int, now: float) -> bool:
        owner = self._owners.get(key)
        if owner is None and len(self._strangers) < _OWNERS_MAX:
            self._strangers.add(key)
        mine = self._accounts.setdefault(key if owner is None else owner, _Credit(as_of=now))
        mine.left = min(_AT_ONCE, mine.left + (now - mine.as_of) * _EACH_S)
        mine.as_of = now
        if count > mine.left:
            self._left_out[key if owner is None else owner] += count
            return False
        mine.left -= count
        return True

    def settle(self, owner_of: Callable[[Cgroups], str | None]) -> Counter[str]:
        """Learn whose cgroups are that came; what was left out lately, by tenant.

        Whose a cgroup is may not be known yet: then it is asked for again.
        """
        with self._lock:
            if len(self._owners) > _OWNERS_MAX:
                self._owners.clear()
                self._accounts.clear()
            told = {key: owner for key in self._strangers if (owner := owner_of(key)) is not None}
            self._owners |= told
            self._strangers -= told.keys()
            for key in told:
                self._accounts.pop(key, None)
            left_out, self._left_out = self._left_out, Counter()
            found: Counter[str] = Counter()
            for whose, count in left_out.items():
                owner = whose if isinstance(whose, str) else self._owners.get(whose)
                if owner is None:
                    self._left_out[whose] = count
                else:
                    found[owner] += count
        return found
