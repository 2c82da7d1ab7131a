"""Processes whose mappings could not be read, because they kept their memory locked."""

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from cotenant.agent.helper.fair_queue import PassedOver, tenant_of
from cotenant.probes.memory_locks import MemoryLock


class _Locked(NamedTuple):
    pid: int
    tenant: str
    since_ns: int


class LockedProcesses:
    """Remembers them until their mappings can be read."""

    def __init__(self, passed_over: PassedOver) -> None:
        self._passed_over = passed_over
        self._locked: dict[int, _Locked] = {}  # By address space.

    def add(self, locks: Mapping[int, MemoryLock], since_ns: int) -> None:
        """What these processes have had mapped since then is not known."""
        for space, lock in locks.items():
            self._locked.setdefault(space, _Locked(lock.pid, tenant_of(lock.pid), since_ns))

    def released(self, locked: Collection[int]) -> int | None:
        """Since when some process has had files mapped that can be read now; None if none has."""
        released = [self._locked.pop(space) for space in [*self._locked] if space not in locked]
        for process in released:
            if not os.path.exists(f"/proc/{process.pid}"):
                self._passed_over.add("mappings", process.tenant)
        return min((process.since_ns for process in released), default=None)
