"""Tells the programs which tenants' functions are without probes: their events time nothing."""

from collections.abc import Mapping

from cotenant.agent.protocol.reports import Rested
from cotenant.agent.protocol.requests import Rest
from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.constants import MAPS


class RestingTenants:
    """Keeps a number for each tenant that ever rested: odd while it does."""

    def __init__(self, told: KernelMap) -> None:
        self._told = told
        self._numbers: dict[int, int] = {}
        self._resting: frozenset[int] = frozenset()
        self._requests = 0

    def ask(self, functions: Mapping[str, tuple[int, ...]], tenants: frozenset[int]) -> Rest:
        """What to tell the helper, by path, so that functions of these tenants alone rest."""
        self._requests += 1
        for tenant in self._resting | tenants:
            self._put(tenant, self._numbers.get(tenant, 0) | 1)
        self._resting = tenants
        return Rest(functions, self._requests)

    def rested(self, report: Rested) -> None:
        """The helper did what it was told; where others map the files, nothing rests."""
        if report.number != self._requests or not report.done:
            return
        still = self._resting if report.blind else frozenset()
        for tenant, number in list(self._numbers.items()):
            if number & 1 and tenant not in still:
                self._put(tenant, number + 1)

    def _put(self, tenant: int, number: int) -> None:
        self._numbers[tenant] = number
        key_bytes, value_bytes = MAPS["resting"]
        key, value = tenant.to_bytes(key_bytes, "little"), number.to_bytes(value_bytes, "little")
        self._told.update(key, value)
