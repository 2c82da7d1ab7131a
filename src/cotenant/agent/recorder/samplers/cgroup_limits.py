"""What cgroups are allowed: CPU quotas and memory limits, written when they change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cotenant.agent.recorder.samplers.live_cgroups import live_cgroups, row_id
from cotenant.identity.ids import V2
from cotenant.identity.ledger import Ledger
from cotenant.identity.walk import Mount, mounts
from cotenant.schema.dimensions import LIMITS
from cotenant.store.segment import rows_of

_LOOK_EVERY: Final = 10  # Seconds.
_AGAIN: Final = 60  # Looks until all are written again: retention deletes rows by age.
_UNLIMITED: Final = 1 << 60  # Version 1 writes no limit as a number near 2^63.


class CgroupLimits:
    """Reads the limits of all cgroups that are told apart, and writes what changed."""

    table: Final = "limits"

    def __init__(self, ledger: Ledger, hierarchies: list[Mount] | None = None) -> None:
        self._ledger = ledger
        self._mounts = mounts() if hierarchies is None else hierarchies
        self._told: dict[int, tuple[float | None, int | None]] = {}
        self._limited: set[tuple[int, int]] = set()  # Hierarchy and kernel id.
        self._looks = 0

    def sample(self, now_ns: int) -> Any | None:
        """Rows for cgroups whose limits changed, now and then for all; None if there are none."""
        self._looks += 1
        if self._looks % _LOOK_EVERY != 1:
            return None
        again = self._looks // _LOOK_EVERY % _AGAIN == 0
        found: dict[int, tuple[float | None, int | None]] = {}
        for cgroup_id, cpus, memory in self._read():
            before = found.get(cgroup_id, (None, None))
            found[cgroup_id] = (cpus or before[0], memory or before[1])
        rows = [
            {
                "timestamp_ns": now_ns,
                "cgroup_id": cgroup_id,
                "cpus": limits[0],
                "memory_bytes": limits[1],
            }
            for cgroup_id, limits in found.items()
            if again or self._told.get(cgroup_id) != limits
        ]
        self._told = {cgroup_id: at for cgroup_id, at in found.items() if at != (None, None)}
        return rows_of(LIMITS, rows) if rows else None

    def _read(self) -> Iterator[tuple[int, float | None, int | None]]:
        """Every cgroup that has a limit, or had one at the last look."""
        before, self._limited = self._limited, set()
        for mount in self._mounts:
            if mount.hierarchy != V2 and not {"cpu", "memory"} & set(mount.controllers):
                continue
            for there in live_cgroups(self._ledger, mount):
                cpus, memory = cpu_limit(there.directory), memory_limit(there.directory)
                key = (mount.hierarchy, there.kernel_id)
                if cpus is not None or memory is not None:
                    self._limited.add(key)
                elif key not in before or not there.directory.exists():
                    continue  # A removed cgroup had its limits to the end.
                yield row_id(self._ledger, mount, there), cpus, memory


def cpu_limit(directory: Path) -> float | None:
    """How many CPUs the cgroup may keep busy; None if it has no quota."""
    words = _words(directory / "cpu.max")
    if not words:
        words = _words(directory / "cpu.cfs_quota_us") + _words(directory / "cpu.cfs_period_us")
    if len(words) != 2 or words[0] in ("max", "-1"):
        return None
    return int(words[0]) / int(words[1])


def memory_limit(directory: Path) -> int | None:
    """How many bytes the cgroup may hold; None if it has no limit."""
    words = _words(directory / "memory.max") or _words(directory / "memory.limit_in_bytes")
    if not words or words[0] == "max" or int(words[0]) >= _UNLIMITED:
        return None
    return int(words[0])


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
