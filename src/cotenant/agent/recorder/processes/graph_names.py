"""Names of kernels in graphs: each is kept once for its tenant, as long as a graph has it.

A graph may outlive the name of its kernel by far, and tenants choose how long names are. So their
bytes are bounded, and a tenant may have as many as are still free. Which of them are still in a
graph is found out when there is no room, and not too often.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final

from cotenant.agent.recorder.processes.shares import Shares

_BYTES_MAX: Final = 128 << 20
_ENTRY_BYTES: Final = 96  # Memory that keeps a name, about.
_LOOK_NS: Final = 10_000_000_000


class GraphNames:
    """Each tenant's; ``used`` says what is in their graphs by now."""

    def __init__(
        self,
        used: Callable[[], Mapping[str, set[str]]],
        drop_ended: Callable[[str], bool],
    ) -> None:
        """``drop_ended`` drops what a tenant's ended processes had; false if there was nothing."""
        self._used = used
        self._drop_ended = drop_ended
        self._names: dict[str, dict[str, str]] = {}
        self._shares = Shares(_BYTES_MAX)
        self._looked_ns = -_LOOK_NS

    def keep(self, tenant: str, name: str, now_ns: int) -> str | None:
        """The string that is kept for all equal ones of a tenant; None if there is no room."""
        found = self._names.get(tenant, {}).get(name)
        if found is None and self._has_room(tenant, name, now_ns):
            found = self._add(tenant, name)
        return found

    def _add(self, tenant: str, name: str) -> str:
        self._shares.count(tenant, _size(name))
        return self._names.setdefault(tenant, {}).setdefault(name, name)

    def _has_room(self, tenant: str, name: str, now_ns: int) -> bool:
        if not self._shares.over(tenant, _size(name)):
            return True
        if abs(now_ns - self._looked_ns) < _LOOK_NS:
            return False
        self._looked_ns = now_ns
        self._look()
        if self._shares.over(tenant, _size(name)) and self._drop_ended(tenant):
            self._look()
        return not self._shares.over(tenant, _size(name))

    def _look(self) -> None:
        self._names, self._shares = {}, Shares(_BYTES_MAX)
        for tenant, names in self._used().items():
            for name in names:
                self._add(tenant, name)


def _size(name: str) -> int:
    return _ENTRY_BYTES + sys.getsizeof(name)
