"""Tells the programs which cgroups are tenants: by the outermost cgroup that is somebody's.

Programs find the tenant of a cgroup by themselves, by what is above it, so nothing is said of what
tenants make within their own. The agent says which cgroups the host made for whom.
"""

import contextlib
import mmap
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from cotenant.identity import Names
from cotenant.identity.ids import NOBODY
from cotenant.identity.outermost import standing
from cotenant.identity.rows import above
from cotenant.identity.walk import Found, Mount, mounts, walk
from cotenant.probes import syscalls
from cotenant.schema.constants import (
    MAPS,
    TENANT_CGROUPS,
    TENANT_HIERARCHY_SHIFT,
    TENANT_HOST,
    TenantFlags,
)
from cotenant.schema.layouts import CONTROL, TENANT

# Of a cgroup that is gone: until the recorder has read the last of what its tenant was refused.
_REMEMBERED_S: Final = 60.0
_CLAIMED_MAX: Final = 4096
# What else is kept by tenant. Programs and the recorder may write it again once a tenant is gone.
_BY_TENANT: Final = ("usage", "freed", "resting")
# Everybody, the host and the kernel: never told, and never gone.
_NEVER_TOLD: Final = frozenset(
    number.to_bytes(MAPS["tenants"][0], "little") for number in (0, TENANT_HOST, NOBODY)
)


def key_of(hierarchy: int, kernel_id: int) -> bytes:
    """How programs write a cgroup: each hierarchy numbers its own from 1."""
    return (hierarchy << TENANT_HIERARCHY_SHIFT | kernel_id).to_bytes(MAPS["tenants"][0], "little")


class Tenants:
    """Keeps the kernel's list of tenants."""

    def __init__(
        self, maps: Mapping[str, int], hierarchies: Callable[[], Iterable[Mount]] = mounts
    ) -> None:
        self._maps = maps
        self._hierarchies = hierarchies
        self._page = mmap.mmap(maps["controls"], mmap.PAGESIZE)
        self._control = np.frombuffer(self._page, CONTROL, count=1)
        # Directories that look like containers, and whose runtime was not heard yet: their cgroups.
        self._claimed: dict[str, set[tuple[int, int]]] = {}
        self._gone: list[tuple[float, bytes]] = []
        self._strays: set[tuple[str, bytes]] = set()
        self._swept_s = time.monotonic()
        self._lock = threading.Lock()

    def survey(self) -> None:
        """All cgroups that exist: the tenants, and the first of what each has within its own."""
        for mount in self._hierarchies():
            self._survey(walk(mount))

    def _survey(self, cgroups: Iterable[Found]) -> None:
        closed: dict[str, int] = {}  # By path: how many within it go by their own id.
        for found in cgroups:  # From the top.
            mine = next((path for path in above(found.path) if path in closed), None)
            if mine is not None:
                closed[mine] += 1
                if closed[mine] <= TENANT_CGROUPS:
                    self._put("told", key_of(found.hierarchy, found.kernel_id), b"\1")
                continue
            flags = standing(found.path, owner_uid=found.owner_uid)
            self._say(found.hierarchy, found.kernel_id, found.path, flags)
            if flags is not None and TenantFlags.CLOSED in flags:
                closed[found.path] = 0

    def born(self, hierarchy: int, kernel_id: int, path: str) -> None:
        """A cgroup was made at this path; who was given its directory shows later."""
        with self._lock:
            self._say(hierarchy, kernel_id, path, standing(path))

    def named(self, path: str, names: Names) -> None:
        """A runtime said who this is."""
        with self._lock:
            if names.confirmed:
                for cgroup in self._claimed.pop(path, ()):
                    self._say(*cgroup, path, standing(path, confirmed=True))

    def gone(self, hierarchy: int, kernel_id: int) -> None:
        """A cgroup is no more."""
        key = key_of(hierarchy, kernel_id)
        if syscalls.map_lookup(self._maps["tenants"], "tenants", key) is not None:
            with self._lock:
                self._gone.append((time.monotonic() + _REMEMBERED_S, key))

    def tend(self) -> None:
        """Forget those that have been gone for long."""
        with self._lock:
            now = time.monotonic()
            while self._gone and self._gone[0][0] <= now:
                _, key = self._gone.pop(0)
                for name in ("tenants", *_BY_TENANT):
                    syscalls.map_delete(self._maps[name], key)
        if now - self._swept_s >= _REMEMBERED_S:
            self._swept_s = now
            self._sweep()

    def _sweep(self) -> None:
        """Delete what came back of tenants after they were forgotten, as a late packet may have it.

        It is kept for as long again: until the recorder has read what such a tenant was refused.
        """
        strays = {
            (name, key)
            for name in _BY_TENANT
            for key in self._keys(name)
            if key not in _NEVER_TOLD
            and syscalls.map_lookup(self._maps["tenants"], "tenants", key) is None
        }
        for name, key in strays & self._strays:
            syscalls.map_delete(self._maps[name], key)
        self._strays = strays - self._strays

    def _keys(self, name: str) -> Iterable[bytes]:
        keys, _ = syscalls.map_items(self._maps[name], *syscalls.entry_bytes(name))
        return (keys[at : at + MAPS[name][0]] for at in range(0, len(keys), MAPS[name][0]))

    def _say(self, hierarchy: int, kernel_id: int, path: str, flags: TenantFlags | None) -> None:
        if flags is None:
            self._claim(hierarchy, kernel_id, path)
            return
        key = key_of(hierarchy, kernel_id)
        known = syscalls.map_lookup(self._maps["tenants"], "tenants", key)
        # A delegated cgroup is closed by the programs, which see who makes others in it.
        before = TenantFlags(struct.unpack_from("I", known)[0]) if known else None
        if before is not None and flags in before:
            return
        entry = np.zeros(1, TENANT)
        entry["flags"] = flags | (before or TenantFlags(0))
        self._put("tenants", key, entry.tobytes())
        self._control["tenants"] += 1

    def _put(self, name: str, key: bytes, value: bytes) -> None:
        # Where there is no room, it is the host's, or goes by its tenant's outermost cgroup.
        with contextlib.suppress(OSError):
            syscalls.map_update(self._maps[name], key, value)

    def _claim(self, hierarchy: int, kernel_id: int, path: str) -> None:
        if standing(path, confirmed=True) is None:
            return
        self._claimed.setdefault(path, set()).add((hierarchy, kernel_id))
        while len(self._claimed) > _CLAIMED_MAX:
            del self._claimed[next(iter(self._claimed))]
