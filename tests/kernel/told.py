"""Is each call a row, or within a hole that is told? Compared call by call with a client's log."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.query.engine.session import Session

# NCCL calls that are no rows.
_NO_ROW = ("GroupStart", "GroupSimulateEnd", "CommUserRank", "CommCount")
# A probe sees a call before the call looks at the clock; in between others may have the CPU.
_BEFORE_NS = 1_000_000_000
# A clock that is slewed: times of the log are converted with one offset, those of rows with many.
_SLEW_NS = 5_000_000


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


def _wanted(family: str, call: dict[str, Any]) -> bool:
    if family == "nccl":
        return call["op"] == "nccl" and call["nccl"] not in _NO_ROW
    return bool(call["op"] == "launch")


def compare(store: Path, where: str, logs: Iterable[Path], family: str = "cuda") -> Told:
    """Launches, or NCCL calls, of the tenant for whose ``containers`` this condition holds."""
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
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
            f"WHERE ({where}) AND family = '{family}' AND from_ns IS NOT NULL ORDER BY 1",
        )
    began = sorted(call["t_begin"] + offset_ns for call in lines if _wanted(family, call))
    missing = _unmatched(began, [at for (at,) in rows])
    outside = [at for at in missing if not any(start <= at <= end for start, end in holes)]
    return Told(len(began), len(rows), len(missing) - len(outside), tuple(outside), tuple(holes))


def _rows(session: Session, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.ask(sql).rows()]


def _unmatched(began: list[int], rows: list[int]) -> list[int]:
    """Calls for which there is no row of their own."""
    missing, at = [], 0
    for when in began:
        while at < len(rows) and rows[at] < when - _BEFORE_NS:
            at += 1
        if at < len(rows) and rows[at] <= when + _SLEW_NS:
            at += 1
        else:
            missing.append(when)
    return missing
