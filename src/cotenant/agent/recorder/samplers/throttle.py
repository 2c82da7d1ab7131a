"""How long cgroups were throttled: the kernel has no tracepoint for a quota that is used up.

``cpu.stat`` counts the time; what was added since the last sample becomes a row of ``host_events``.
Only cgroups that are told apart and have a CPU quota are read each second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.agent.recorder.samplers.cgroup_limits import cpu_limit
from cotenant.agent.recorder.samplers.live_cgroups import live_cgroups, row_id
from cotenant.identity.ids import V2
from cotenant.identity.ledger import Ledger
from cotenant.identity.walk import Mount, mounts
from cotenant.schema.events import HOST_EVENTS
from cotenant.store.segment import rows_of

_SEARCH_EVERY: Final = 5  # Seconds between searches for new quotas.


@dataclass(slots=True)
class _Quota:
    """A cgroup with a quota, and how long it had been throttled at the last sample."""

    directory: Path
    cgroup_id: int
    throttled_ns: int


class Throttle:
    """Follows every cgroup that has a CPU quota."""

    table: Final = "host_events"

    def __init__(
        self,
        ledger: Ledger,
        hierarchies: list[Mount] | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        self._ledger = ledger
        self._exclude = exclude
        self._mount = _controlled(mounts() if hierarchies is None else hierarchies)
        self._quotas: dict[int, _Quota] = {}
        self._looks = 0
        # How long cgroups that are older than the recording had been throttled by its start.
        self._before: dict[int, int] = {}

    def sample(self, now_ns: int) -> Any | None:
        """Rows for cgroups that were throttled since the last sample; None if none was."""
        if self._mount is None:
            return None
        if self._looks % _SEARCH_EVERY == 0:
            self._search(self._mount)
        self._looks += 1
        rows = []
        for kernel_id, quota in list(self._quotas.items()):
            throttled_ns = _throttled_ns(quota.directory)
            if throttled_ns is None:
                del self._quotas[kernel_id]
                continue
            added_ns, quota.throttled_ns = throttled_ns - quota.throttled_ns, throttled_ns
            if added_ns > 0 and not self._excluded(kernel_id):
                rows.append(_row(now_ns, quota.cgroup_id, added_ns))
        return rows_of(HOST_EVENTS, rows) if rows else None

    def _excluded(self, kernel_id: int) -> bool:
        return self._mount is not None and self._ledger.excludes(
            self._mount.hierarchy, kernel_id, self._exclude
        )

    def _search(self, mount: Mount) -> None:
        for found in live_cgroups(self._ledger, mount):
            if found.kernel_id in self._quotas or found.path == "/":
                continue
            if self._looks == 0:
                self._before[found.kernel_id] = _throttled_ns(found.directory) or 0
            if not cpu_limit(found.directory):
                continue
            cgroup_id = row_id(self._ledger, mount, found)
            # A cgroup that is younger than the recording was throttled within it.
            before = self._before.get(found.kernel_id, 0)
            self._quotas[found.kernel_id] = _Quota(found.directory, cgroup_id, before)


def _controlled(hierarchies: list[Mount]) -> Mount | None:
    """The hierarchy that has the cpu controller: a version 1 one that took it, else version 2."""
    for mount in hierarchies:
        if "cpu" in mount.controllers:
            return mount
    return next((mount for mount in hierarchies if mount.hierarchy == V2), None)


def _throttled_ns(directory: Path) -> int | None:
    """How long it was throttled so far; None if it is gone."""
    try:
        words = dict(line.split() for line in (directory / "cpu.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if "throttled_usec" in words:
        return int(words["throttled_usec"]) * 1000
    return int(words.get("throttled_time", 0))


def _row(now_ns: int, cgroup_id: int, duration_ns: int) -> dict[str, Any]:
    return {
        "timestamp_ns": now_ns,
        "pid": 0,
        "tid": 0,
        "cgroup_id": cgroup_id,
        "comm": "",
        "op": "throttled",
        "duration_ns": duration_ns,
        "cpu": 0,
        "peer_pid": None,
        "peer_cgroup_id": None,
        "state": None,
        "attribution": "task",
        "weight": 1,
    }
