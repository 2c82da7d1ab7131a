"""Room that all tenants share: each may have as much of it as is still free."""

from collections import Counter
from collections.abc import Callable

from cotenant.agent.process import Departed, Process


class Shares:
    """Entries that all tenants share: each may have as many as are still free."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._by_tenant: Counter[str] = Counter()

    def over(self, tenant: str, more: int = 1) -> bool:
        """Whether a tenant would have more than is left, if it had so many more."""
        return self._by_tenant[tenant] + more > self._most - self._taken

    def make_room(
        self, tenant: str, process: Process, departed: Departed, drop: Callable[[Process], None]
    ) -> bool:
        """Whether this process of a tenant may have one more; its ended ones are dropped for it."""
        while self.over(tenant):
            oldest = departed.oldest(tenant)
            if oldest is not None:
                drop(oldest)
            if oldest in (None, process):
                return False
        return True

    def count(self, tenant: str, more: int) -> None:
        """A tenant has so many more, or less."""
        self._taken += more
        self._by_tenant[tenant] += more
        if not self._by_tenant[tenant]:
            del self._by_tenant[tenant]
