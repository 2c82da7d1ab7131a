"""How much one tenant may tell us: a fact takes more time to learn than to make.

A call may make 64 facts, and nothing in the kernel ends that. What a tenant tells beyond its budget
is left out before anybody looks at it, and counted; its own names may be unknown for it.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cotenant.identity.tenant import UNKNOWN
from cotenant.schema.kinds import FACT_CGROUPS

# Eight processes that register 24,000 kernels each, at once.
_AT_ONCE: Final = 1 << 18
_EACH_S: Final = 1 << 16
_OWNERS_MAX: Final = 1 << 16
_PATIENCE_S: Final = 5.0

Cgroups = bytes  # Both ids, as facts have them.
_ANY: Final[Cgroups] = b""  # All cgroups that there is no room to ask for.


@dataclass(slots=True)
class _Credit:
    left: float = _AT_ONCE
    as_of: float = 0.0


@dataclass(slots=True)
class _LeftOut:
    since: float
    count: int = 0


class FactBudget:
    """Each tenant's; until it is known whose a cgroup is, it counts as a tenant.

    Cgroups that come while too many are asked for count as one tenant together.
    """

    def __init__(self) -> None:
        self._accounts: dict[str | Cgroups, _Credit] = {}
        self._owners: dict[Cgroups, str] = {}
        self._strangers: set[Cgroups] = set()
        self._left_out: dict[str | Cgroups, _LeftOut] = {}
        self._now = 0.0
        self._lock = threading.Lock()
        self.patience_s = _PATIENCE_S  # What is left out is nobody's that we know after that.

    def admit(self, facts: list[bytes], now: float) -> list[bytes]:
        """What is within the budgets; most often all."""
        keys = [fact[FACT_CGROUPS] for fact in facts]
        with self._lock:
            self._now = now
            over = {key for key, count in Counter(keys).items() if not self._spend(key, count, now)}
        if not over:
            return facts
        return [fact for fact, key in zip(facts, keys, strict=True) if key not in over]

    def _spend(self, key: Cgroups, count: int, now: float) -> bool:
        whose = self._account_of(key)
        mine = self._accounts.setdefault(whose, _Credit(as_of=now))
        mine.left = min(_AT_ONCE, mine.left + (now - mine.as_of) * _EACH_S)
        mine.as_of = now
        if count > mine.left:
            self._left_out.setdefault(whose, _LeftOut(now)).count += count
            return False
        mine.left -= count
        return True

    def _account_of(self, key: Cgroups) -> str | Cgroups:
        owner = self._owners.get(key)
        if owner is not None:
            return owner
        if key not in self._strangers and len(self._strangers) >= _OWNERS_MAX:
            return _ANY
        self._strangers.add(key)
        return key

    def settle(self, owner_of: Callable[[Cgroups], str | None]) -> Counter[str]:
        """Learn whose cgroups are that came; what was left out lately, by tenant.

        Whose a cgroup is may not be known yet: then it is asked for again, for some seconds.
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
            found = self._find_left_out()
            if len(self._strangers) >= _OWNERS_MAX:
                # Room for those that come next: some of these may never be known.
                for key in self._strangers:
                    self._accounts.pop(key, None)
                self._strangers.clear()
        return found

    def _find_left_out(self) -> Counter[str]:
        """What was left out, by tenant, as far as it is known or will not be."""
        left_out, self._left_out = self._left_out, {}
        found: Counter[str] = Counter()
        for whose, left in left_out.items():
            owner = whose if isinstance(whose, str) else self._owners.get(whose)
            if owner is None and self._now - left.since < self.patience_s:
                self._left_out[whose] = left
            else:
                found[owner or UNKNOWN] += left.count
        return found

    @property
    def waits(self) -> bool:
        """Whether something was left out that is not told yet."""
        return bool(self._left_out)
