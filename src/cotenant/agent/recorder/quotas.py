"""What tenants were refused of the maps that all share, and what was freed for them."""

import errno
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.identity.ids import NOBODY
from cotenant.identity.rows import above
from cotenant.identity.tenant import UNKNOWN
from cotenant.identity.walk import Found
from cotenant.probes.kernel_maps import KernelMaps
from cotenant.schema.constants import MAPS, TENANT_HIERARCHY_SHIFT, TenantFlags
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FREED, TENANT, USAGE

_QUOTAS: Final = {name: number for number, name in ENUMS["quota"].items() if name != "END"}
_EVERYBODY: Final = 0
_NO_ROOM: Final = frozenset({errno.E2BIG, errno.ENOMEM})
_NOTHING: Final = np.zeros(USAGE["refused"].shape, np.uint64)

Cgroup = tuple[int, int]  # Hierarchy and kernel id.


def cgroup_of(tenant: int) -> Cgroup:
    """The outermost cgroup that a tenant is known by."""
    if tenant == NOBODY:
        return 0, NOBODY
    return tenant >> TENANT_HIERARCHY_SHIFT, tenant & (1 << TENANT_HIERARCHY_SHIFT) - 1


def told_apart(maps: KernelMaps) -> Callable[[Found], bool]:
    """Whether events of a cgroup carry its own id; to be asked from the top of a tree down.

    A tenant may have more cgroups within its own than are told apart.
    """
    told = set(np.frombuffer(maps["told"].items()[0], np.uint64).tolist())
    keys, values = maps["tenants"].items()
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


class Quotas:
    """Reads what the programs count, and tells them what was removed from their maps."""

    def __init__(self, maps: KernelMaps) -> None:
        self._maps = maps
        self._entries: dict[int, npt.NDArray[Any]] = {}
        self._counted: dict[int, npt.NDArray[np.uint64]] = {}  # By tenant that is there.
        self._paths: dict[int, str] = {}
        self._refused: dict[str, Counter[str]] = {}

    def freed(self, name: str, tenant: int) -> None:
        """An entry of a map that this tenant had was removed.

        Of a tenant that the helper has let go of nothing is counted any more.
        """
        key = tenant.to_bytes(MAPS["usage"][0], "little")
        if self._maps["usage"].lookup(key) is not None:
            self._free(name, tenant)
        self._free(name, _EVERYBODY)

    def _free(self, name: str, whose: int) -> None:
        entry = self._entries.setdefault(whose, np.zeros(1, FREED))
        entry["entries"][0, _QUOTAS[name]] += 1
        key = whose.to_bytes(MAPS["freed"][0], "little")
        try:
            self._maps["freed"].update(key, entry.tobytes())
        except OSError as error:
            # All that was freed so far is told with the next.
            if error.errno not in _NO_ROOM:
                raise

    def refused(self, path_of: Callable[[int, int], str]) -> dict[str, dict[str, int]]:
        """Entries that were refused since the recording began: by map, and by a cgroup's path.

        Tenants come and go, and another may come to the same place: what each was refused since
        it was last looked at is added up. One that is gone goes by its last path.
        """
        counted = self._read()
        for tenant, now in counted.items():
            before = self._counted.get(tenant, _NOTHING)
            if not (now != before).any():
                continue
            path = path_of(*cgroup_of(tenant)) or self._paths.get(tenant)
            if path is None:
                # A cgroup is told at about the same time: it is asked for once more.
                self._paths[tenant] = ""
                counted[tenant] = before
                continue
            # Less than before is another tenant's, that came to its number.
            self._add(path, now if (now < before).any() else now - before)
            self._paths[tenant] = path
        self._counted = counted
        self._paths = {tenant: path for tenant, path in self._paths.items() if tenant in counted}
        for tenant in self._entries.keys() - counted.keys() - {_EVERYBODY}:
            del self._entries[tenant]
        return {name: dict(mine) for name, mine in self._refused.items()}

    def refused_of(self, name: str) -> set[int]:
        """Tenants that are there and were refused entries of this map."""
        return {tenant for tenant, counts in self._read().items() if counts[_QUOTAS[name]]}

    def _read(self) -> dict[int, npt.NDArray[np.uint64]]:
        """What each tenant was refused so far, by number of quota."""
        keys, values = self._maps["usage"].items()
        counts = np.frombuffer(values, USAGE)["refused"]
        return dict(zip(np.frombuffer(keys, np.uint64).tolist(), counts, strict=True))

    def _add(self, path: str, more: npt.NDArray[np.uint64]) -> None:
        for name, number in _QUOTAS.items():
            if more[number]:
                self._refused.setdefault(name, Counter())[path or UNKNOWN] += int(more[number])
