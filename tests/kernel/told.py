"""Is each call a row, or within a hole that is told? Compared call by call with a client's log."""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from cotenant.query.engine.session import Session
from cotenant.schema.holes import REASONS

# NCCL calls that are no rows.
_NO_ROW = ("GroupStart", "GroupSimulateEnd", "CommUserRank", "CommCount")
# A thread's first call was entered at most so long before it looked at the clock.
_BEFORE_NS = 1_000_000_000
# UTC minus the monotonic clock, as read at different times.
_JITTER_NS = 1_000
_EVENTS_MISSING = tuple(reason.name for reason in REASONS.values() if reason.what is None)


@dataclass(frozen=True, slots=True)
class Told:
    """What a store says about the calls of a log."""

    calls: int
    rows: int
    inside: int  # Calls without a row that lie in a hole.
    untold: tuple[int, ...]  # When those began that lie in none: there must be none.
    holes: tuple[tuple[int, int], ...]  # From when to when.

    @property
    def longest_ns(self) -> int:
        return max((end - start for start, end in self.holes), default=0)


@dataclass(frozen=True, slots=True, order=True)
class _Call:
    """A call was entered after its thread's call before, and then looked at the clock."""

    since_ns: int
    began_ns: int

    def within(self, holes: Iterable[tuple[int, int]]) -> bool:
        return any(start <= self.began_ns and self.since_ns <= end for start, end in holes)


def compare(store: Path, where: str, logs: Iterable[Path], family: str = "cuda") -> Told:
    """Launches, or NCCL calls, of the tenant for whose ``containers`` this condition holds."""
    with Session(store) as session:
        ((offset_ns,),) = _rows(session, "SELECT max(wall_offset_ns) FROM sessions")
        launches = "op = 'launch'" if family == "cuda" else "true"
        rows = _rows(
            session,
            f"SELECT timestamp_ns FROM {family}_events JOIN containers USING (cgroup_id) "
            f"WHERE {where} AND {launches} ORDER BY 1",
        )
        holes = _rows(
            session,
            "SELECT DISTINCT from_ns, to_ns FROM losses JOIN containers USING (cgroup_id) "
            f"WHERE ({where}) AND family = '{family}' AND from_ns IS NOT NULL "
            f"AND reason IN {_EVENTS_MISSING} ORDER BY 1",
        )
    calls = sorted(call for log in logs for call in _calls(log, family, offset_ns))
    missing = _unmatched(calls, [at for (at,) in rows])
    outside = [call.began_ns for call in missing if not call.within(holes)]
    return Told(len(calls), len(rows), len(missing) - len(outside), tuple(outside), tuple(holes))


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.ask(sql).rows()]


def _calls(log: Path, family: str, offset_ns: int) -> Iterator[_Call]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    of_threads: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in lines:
        # NCCL calls the driver, before it looks at the clock too.
        if "t_begin" in line and (line["op"] == "nccl") == (family == "nccl"):
            of_threads.setdefault((line["pid"], line["tid"]), []).append(line)
    for made in of_threads.values():
        ended = sorted(line["t_end"] for line in made)
        for line in filter(lambda line: _wanted(family, line), made):
            began = line["t_begin"]
            outermost = line.get("outer_begin", began)
            before = bisect_right(ended, outermost)
            since = ended[before - 1] if before else outermost - _BEFORE_NS
            yield _Call(since + offset_ns, began + offset_ns)


def _wanted(family: str, call: dict[str, Any]) -> bool:
    if family == "nccl":
        return call["op"] == "nccl" and call["nccl"] not in _NO_ROW
    return bool(call["op"] == "launch")


def _unmatched(calls: list[_Call], rows: list[int]) -> list[_Call]:
    """Calls for which there is no row of their own, as few as can be."""
    missing: list[_Call] = []
    entered: list[tuple[int, _Call]] = []  # A heap: whoever looks at the clock first.
    at = 0
    for row in rows:
        while at < len(calls) and calls[at].since_ns - _JITTER_NS <= row:
            heappush(entered, (calls[at].began_ns, calls[at]))
            at += 1
        while entered and entered[0][0] + _JITTER_NS < row:
            missing.append(heappop(entered)[1])
        if entered:
            heappop(entered)
    return missing + [call for _, call in entered] + calls[at:]
