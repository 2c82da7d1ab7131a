"""How much of the recorder's time and memory the graphs of one tenant may take.

What a graph holds is the tenant's choice, and so is how often it is copied: of a large one each
copy takes time, memory and rows. A tenant has so much at once, and so much more each second; what
is beyond is left out, and counted.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Kernels to go through: an application may update a graph of thousands for each of its steps.
_AT_ONCE: Final = 1 << 20
_EACH_S: Final = 1 << 18
_SECOND_NS: Final = 1_000_000_000
_TENANTS_MAX: Final = 1024


@dataclass(slots=True)
class _Spending:
    """What a tenant may still do, and what it keeps at most."""

    left: float = _AT_ONCE
    as_of_ns: int = 0
    kept: int = 0
    counted_ns: int = -_SECOND_NS


class Allowances:
    """Each tenant's; ``count`` says what one keeps by now."""

    def __init__(self, kept_max: int, count: Callable[[str], int]) -> None:
        self._kept_max = kept_max
        self._count = count
        self._accounts: OrderedDict[str, _Spending] = OrderedDict()
        self.refused: Counter[str] = Counter()

    def spend(self, tenant: str, work: int, kept: int, now_ns: int) -> bool:
        """Whether a tenant may do what takes so much work, and has so much kept at most."""
        mine = self._account(tenant)
        passed_ns = max(now_ns - mine.as_of_ns, 0)
        mine.left = min(_AT_ONCE, mine.left + passed_ns * _EACH_S / _SECOND_NS)
        mine.as_of_ns = max(mine.as_of_ns, now_ns)
        if work > mine.left or (kept and not self._has_room(tenant, mine, kept)):
            self.refused[tenant] += 1
            return False
        mine.left -= work
        mine.kept += kept
        return True

    def _has_room(self, tenant: str, mine: _Spending, more: int) -> bool:
        """What was let go is noticed when it matters, and not more often than each second."""
        if mine.kept + more > self._kept_max and mine.as_of_ns - mine.counted_ns >= _SECOND_NS:
            mine.counted_ns = mine.as_of_ns
            mine.kept = self._count(tenant)
        return mine.kept + more <= self._kept_max

    def _account(self, tenant: str) -> _Spending:
        mine = self._accounts.pop(tenant, None) or _Spending()
        self._accounts[tenant] = mine
        while len(self._accounts) > _TENANTS_MAX:
            self._accounts.popitem(last=False)
        return mine
