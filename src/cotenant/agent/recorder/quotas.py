"""What tenants were refused of the maps that all share, and what was freed for them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.identity.ids import NOBODY
from cotenant.identity.rows import above
from cotenant.identity.walk import Found
from cotenant.probes import syscalls
from cotenant.schema.constants import MAPS, TENANT_HIERARCHY_SHIFT, TenantFlags
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FREED, TENANT, USAGE

_QUOTAS: Final = {name: number for number, name in ENUMS["quota"].items() if name != "END"}
_EVERYBODY: Final = 0

Cgroup = tuple[int, int]  # Hierarchy and kernel id.


def cgroup_of(tenant: int) -> Cgroup:
    """The outermost cgroup that a tenant is known by."""
    if tenant == NOBODY:
        return 0, NOBODY
    return tenant >> TENANT_HIERARCHY_SHIFT, tenant & (1 << TENANT_HIERARCHY_SHIFT) - 1


def told_apart(maps: Mapping[str, int]) -> Callable[[Found], bool]:
    """Whether events of a cgroup carry its own id; to be asked from the top of a tree down.

    A tenant may have more cgroups within its own than are told apart.
    """
    told = set(np.frombuffer(_items(maps, "told")[0], np.uint64).tolist())
    keys, values = _items(maps, "tenants")
    closed = np.frombuffer(values, TENANT)["flags"] & TenantFlags.CLOSED != 0
    tenants = set(np.frombuffer(keys, np.uint64)[closed].tolist())
    theirs: set[tuple[int, str]] = set()

    def apart(found: Found) -> bool:
        key = found.hierarchy << TENANT_HIERARCHY_SHIFT | found.kernel_id
        within = any((found.hierarchy, path) in theirs for path in above(found.path))
        if not within and key in tenants:
            theirs.add((found.hierarchy, found.path))
        return not within or key in told

    return apart


def _items(maps: Mapping[str, int], name: str) -> tuple[bytes, bytes]:
    return syscalls.map_items(maps[name], *MAPS[name])


class Quotas:
    """Reads what the programs count, and tells them what was removed from their maps."""

    def __init__(self, maps: Mapping[str, int]) -> None:
        self._maps = maps
        self._entries: dict[int, npt.NDArray[Any]] = {}

    def freed(self, name: str, tenant: int) -> None:
        """An entry of a map that this tenant had was removed."""
        for whose in (tenant, _EVERYBODY):
            if whose not in self._entries:
                self._entries[whose] = np.zeros(1, FREED)
            entry = self._entries[whose]
            entry["entries"][0, _QUOTAS[name]] += 1
            key = whose.to_bytes(MAPS["freed"][0], "little")
            syscalls.map_update(self._maps["freed"], key, entry.tobytes())

    def refused(self) -> dict[str, dict[int, int]]:
        """Entries that were refused since the recording began, by map and tenant."""
        keys, values = _items(self._maps, "usage")
        tenants = np.frombuffer(keys, np.uint64)
        counts = np.frombuffer(values, USAGE)["refused"]
        found = {}
        for name, number in _QUOTAS.items():
            mine = counts[:, number]
            if mine.any():
                told = zip(tenants[mine > 0].tolist(), mine[mine > 0].tolist(), strict=True)
                found[name] = dict(told)
        return found
