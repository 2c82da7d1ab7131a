"""Cgroups that are made, and who enters them: the first sign of a new container."""

import time
from typing import Any, Final

import numpy as np

from cotenant._native import Ring
from cotenant.agent.helper.discovery.mounts import mount_namespace
from cotenant.agent.helper.discovery.scheduler import DiscoveryScheduler
from cotenant.agent.helper.exclusion import Exclusion
from cotenant.agent.helper.naming import Naming
from cotenant.agent.helper.tenants import Tenants
from cotenant.identity.text import path_text
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FACT

_KINDS: Final = {name: value for value, name in ENUMS["fact_kind"].items()}


def _part(name: str) -> slice:
    fields = FACT.fields
    assert fields is not None
    kind, at = fields[name][:2]
    return slice(at, at + kind.itemsize)


_KIND: Final = _part("kind")
_PID: Final = _part("pid")
_OTHER: Final = _part("other")
_EXEC: Final = _KINDS["PROCESS_EXEC"].to_bytes(2, "little")
_NEWBORN_MAX: Final = 4096
_SURVEY_EVERY_S: Final = 1.0


class Births:
    """Tells everybody who has to know."""

    def __init__(
        self,
        ring: Ring,
        ring_bytes: int,
        tenants: Tenants,
        exclusion: Exclusion,
        naming: Naming,
        discovery: DiscoveryScheduler,
    ) -> None:
        self._ring = ring
        self._ring_bytes = ring_bytes
        self._tenants = tenants
        self._exclusion = exclusion
        self._naming = naming
        self._discovery = discovery
        self._home = mount_namespace().to_bytes(8, "little")
        self._newborn: dict[tuple[int, int], None] = {}
        self._survey_due, self._surveyed_s = False, 0.0

    def follow(self) -> None:
        """What came since the last time."""
        if self._ring.waiting() > self._ring_bytes // 2:
            self._survey_due = True  # Births may be lost for want of room.
        for record in self._ring.records():
            if self._started_at_home(record):
                continue
            fact = np.frombuffer(record, FACT, count=1)[0]
            self._take(fact, record[FACT.itemsize : FACT.itemsize + int(fact["size"])])
        self._survey()

    def _started_at_home(self, record: bytes) -> bool:
        """Most of what comes is this: a program that starts in the host's own mounts."""
        if record[_KIND] != _EXEC or record[_OTHER] != self._home:
            return False
        self._discovery.newcomers.started(int.from_bytes(record[_PID], "little"))
        return True

    def _take(self, fact: Any, text: bytes) -> None:
        kind, cgroup = int(fact["kind"]), (int(fact["other"]), int(fact["handle"]))
        if kind == _KINDS["CGROUP_BORN"]:
            self._born(*cgroup, path_text(text))
        elif kind == _KINDS["CGROUP_MOVED"]:
            self._survey_due = True  # All below it have moved along.
        elif kind == _KINDS["CGROUP_GONE"]:
            self._tenants.gone(*cgroup)
            self._exclusion.gone(*cgroup, path_text(text))
        elif kind == _KINDS["TASK_MOVED"]:
            if cgroup in self._newborn:
                self._discovery.newcomers.entered(int(fact["pid"]))
        elif kind in (_KINDS["PROCESS_EXEC"], _KINDS["PROCESS_FORK"]):
            self._discovery.newcomers.entered(int(fact["pid"]))

    def _born(self, hierarchy: int, kernel_id: int, path: str) -> None:
        self._tenants.born(hierarchy, kernel_id, path)
        self._exclusion.born(hierarchy, kernel_id, path)
        self._naming.ask(path)
        self._newborn[hierarchy, kernel_id] = None
        while len(self._newborn) > _NEWBORN_MAX:
            self._newborn.pop(next(iter(self._newborn)))

    def _survey(self) -> None:
        """Whoever moves cgroups without end costs us one walk a second."""
        if self._survey_due and time.monotonic() - self._surveyed_s >= _SURVEY_EVERY_S:
            self._survey_due, self._surveyed_s = False, time.monotonic()
            self._tenants.survey()
            self._naming.survey()
