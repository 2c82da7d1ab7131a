"""Lanes, the rows of the timeline: one per node, family, tenant, process and stream."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from cotenant.query.engine.session import Session
from cotenant.query.screens.timeline.newest import newest_part
from cotenant.query.screens.timeline.rows import rows as slices_of
from cotenant.schema.families import FAMILIES

LANES_PER_TENANT: Final = 12  # Of one family; the rest share a lane, to fit on a screen.
HOST: Final = frozenset({"host", "kernel", "unknown"})
_REST: Final = -1
_PAUSE: Final = 10  # Pause after a survey, in units of its duration,
_LEAST_PAUSE_S: Final = 2.0  # but at least this long.

Key = tuple[int, int | None, int | None]  # cgroup_id, pid, stream.
Place = tuple[str, str | None]  # A tenant, and a node on which it is.
_UNKNOWN: Final[Place] = ("unknown", None)


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline."""

    id: int
    family: str
    tenant: str
    pid: int | None = None
    stream: int | None = None
    node: str | None = None
    shared: bool = False  # By all processes and streams of the tenant without a lane of their own.


@dataclass(slots=True)
class Survey:
    """What a look at the whole store found: its interval, tenants and counts.

    Of a large store the newest part is looked at; the rest is added up from rollups.
    """

    start_ns: int | None = None
    end_ns: int | None = None
    events: dict[str, dict[str, int]] | None = None  # By tenant and family.
    order: tuple[str, ...] = ()  # Tenants with GPU events first, then by their first event.
    longest: dict[str, int] | None = None  # By family, in ns.
    newest_ns: int | None = None  # Since when it has no more than can be shown at once.
    number: int = field(default=0, compare=False)  # Of those that found something else than before.


class Lanes:
    """Assigns rows to lanes; a lane's id is never reused."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, Key], int] = {}
        self._by_lane: dict[tuple[str, Place, int | None, int | None], int] = {}
        self._count: dict[tuple[str, Place], int] = {}
        self._places: dict[int, Place] = {}
        self._lock = threading.Lock()
        self._scan_lock = threading.Lock()
        self._next_scan = 0.0
        self.all: list[Lane] = []
        self.survey = Survey()

    def lane_of(self, family: str, key: Key) -> int:
        """The lane of rows with this key, made if it is new."""
        with self._lock:
            found = self._by_key.get((family, key))
            return self._assign(family, key) if found is None else found

    def _assign(self, family: str, key: Key) -> int:
        cgroup_id, pid, stream = key
        place = self._places.get(cgroup_id)
        if place is None:
            # Newer than the last survey; the next one knows its tenant.
            return self._lane(family, _UNKNOWN, None, None)
        full = self._count.get((family, place), 0) >= LANES_PER_TENANT
        known = (family, place, pid, stream) in self._by_lane
        splits = (pid, stream) != (None, None)
        rest = full and not known and splits
        lane = self._lane(family, place, *((_REST, _REST) if rest else (pid, stream)))
        self._by_key[family, key] = lane
        return lane

    def _lane(self, family: str, place: Place, pid: int | None, stream: int | None) -> int:
        key = (family, place, pid, stream)
        if key not in self._by_lane:
            self._by_lane[key] = len(self.all)
            self._count[family, place] = self._count.get((family, place), 0) + 1
            tenant, node = place
            split = (None, None) if pid == _REST else (pid, stream)
            self.all.append(Lane(len(self.all), family, tenant, *split, node, pid == _REST))
        return self._by_lane[key]

    def look(self, session: Session) -> None:
        """Survey the store, unless that was done a moment ago."""
        with self._scan_lock:
            if time.monotonic() < self._next_scan:
                return
            began = time.monotonic()
            names = session.ask("SELECT cgroup_id, tenant, node FROM containers").rows()
            newest_ns = newest_part(session.segments)
            rows = session.ask(_survey_sql(newest_ns)).rows()
            with self._lock:
                for row in names:
                    self._places[row["cgroup_id"]] = (row["tenant"], row["node"])
            # The busiest of each tenant get lanes of their own.
            rows.sort(key=lambda row: -row["events"])
            for row in rows:
                self.lane_of(row["family"], (row["cgroup_id"], row["pid"], row["stream"]))
            if newest_ns is not None:
                rows += session.ask(_rollup_sql(newest_ns)).rows()
            found = replace(self._summed(rows), newest_ns=newest_ns)
            if found != self.survey:
                self.survey = replace(found, number=self.survey.number + 1)
            took = time.monotonic() - began
            self._next_scan = time.monotonic() + max(_LEAST_PAUSE_S, _PAUSE * took)

    def _summed(self, rows: Iterable[dict[str, Any]]) -> Survey:
        events: dict[str, dict[str, int]] = {}
        first: dict[str, tuple[bool, bool, int]] = {}
        longest: dict[str, int] = {}
        start: int | None = None
        end: int | None = None
        for row in rows:
            tenant, _ = self._places.get(row["cgroup_id"], _UNKNOWN)
            family, began, ended = row["family"], row["first_ns"], row["last_ns"]
            mine = events.setdefault(tenant, {})
            mine[family] = mine.get(family, 0) + row["events"]
            # Tenants with GPU events first; the hosts and their kernels last.
            rank = (tenant.partition("@")[0] in HOST, not FAMILIES[family].gpu, began)
            first[tenant] = min(first.get(tenant, rank), rank)
            longest[family] = max(longest.get(family, 0), row["longest_ns"])
            start = began if start is None else min(start, began)
            end = ended if end is None else max(end, ended)
        order = tuple(sorted(first, key=lambda tenant: (first[tenant], tenant)))
        return Survey(start, end, events, order, longest)


def _survey_sql(since_ns: int | None) -> str:
    since = "" if since_ns is None else f" AND timestamp_ns >= {since_ns}"
    return "\nUNION ALL ".join(
        f"""SELECT '{family.name}' AS family, cgroup_id, pid, stream,
       sum(weight)::BIGINT AS events, min(began_ns) AS first_ns, max(began_ns + d) AS last_ns,
       max(d)::BIGINT AS longest_ns
  FROM ({slices_of(family)}{since}) GROUP BY ALL"""
        for family in FAMILIES.values()
    )


def _rollup_sql(until_ns: int) -> str:
    """The same of what came before, by the second; whose lanes there were is not known."""
    return f"""
SELECT family, cgroup_id, sum(count)::BIGINT AS events, min(timestamp_ns) AS first_ns,
       max(timestamp_ns) AS last_ns, coalesce(max(max_ns), 0)::BIGINT AS longest_ns
  FROM rollups WHERE timestamp_ns < {until_ns} GROUP BY ALL"""
