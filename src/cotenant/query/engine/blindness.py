"""Holes in an answer: times in which something of its tables went unseen, and whose."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from cotenant.query.engine.answer import Hole, Interval
from cotenant.query.engine.completeness import families_of
from cotenant.query.engine.window import Window
from cotenant.schema.families import FAMILIES, GPU_FAMILIES
from cotenant.schema.folding import ROLLUP_TABLES, SHOWN_BY
from cotenant.schema.holes import REASONS
from cotenant.store.manifest import Segment

# What no probe saw is missing from these, too.
_OF_CALLS: Final = {"totals": tuple(FAMILIES), "in_flight": GPU_FAMILIES}
DOWN: Final = "nothing recorded"
_FORGOTTEN: Final = "losses no longer kept"
# A recording counts what it lost from its first second on.
_SLACK_NS: Final = 60_000_000_000
SHOWN: Final = 4  # Tenants of a hole.

# Pieces of one hole may overlap: two libraries of a tenant that were probed late.
_HOLES: Final = f"""
WITH pieces AS (
SELECT reason, family, cgroup_id, unseen,
       greatest(from_ns, $from) AS from_ns, least(to_ns, $to) AS to_ns
  FROM whole.holes
 WHERE from_ns < $to AND to_ns >= $from AND lost + shed = 0
   AND list_contains($families, family)
), ordered AS (
SELECT *, max(to_ns) OVER (PARTITION BY reason, cgroup_id ORDER BY from_ns, to_ns
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns
  FROM pieces
), by_cgroup AS (
SELECT reason, cgroup_id, list_sort(list_distinct(list(family))) AS families,
       min(from_ns) AS from_ns, max(to_ns) AS to_ns, sum(unseen) AS unseen,
       sum(greatest(0, to_ns - greatest(from_ns, coalesce(covered_ns, from_ns)))) AS blind_ns
  FROM ordered GROUP BY reason, cgroup_id
)
SELECT reason, families, min(from_ns), max(to_ns), max(blind_ns)::BIGINT,
       sum(unseen)::BIGINT, list_sort(list_distinct(list(tenant)))[:{SHOWN}]
  FROM by_cgroup LEFT JOIN containers USING (cgroup_id)
 GROUP BY reason, families"""


def touches_losses(tables: Iterable[str]) -> bool:
    """Whether rows of these tables can have been lost, or gone unseen."""
    named = _named(tables)
    return bool(families_of(named) or named & _OF_CALLS.keys())


def _named(tables: Iterable[str]) -> set[str]:
    """The tables, and those by which minutes and hours are shown."""
    return {name for table in tables for name in (table, SHOWN_BY.get(table, table))}


def holes_of(connection: Any, tables: Iterable[str], window: Window) -> tuple[Hole, ...]:
    """What went unseen of these tables in the session's window, by reason."""
    named = _named(tables)
    families = {*families_of(named), *(f for t in named & _OF_CALLS.keys() for f in _OF_CALLS[t])}
    if not families:
        return ()
    rows = connection.execute(_HOLES, {"families": sorted(families)} | window.bounds()).fetchall()
    found = [
        Hole(reason, tuple(of), _whose(tenants), Interval(start, end), blind_ns, unseen)
        for reason, of, start, end, blind_ns, unseen, tenants in rows
        if _touches(reason, named)
    ]
    return in_order(found, _not_recording(connection, window))


def in_order(holes: Iterable[Hole], down: Iterable[Hole]) -> tuple[Hole, ...]:
    """The longest first; then when there was no recorder."""
    by_length = sorted(holes, key=lambda hole: (-hole.blind_ns, hole.reason, hole.families))
    return (*by_length, *sorted(down, key=lambda hole: hole.interval.start_ns))


def _whose(tenants: list[str | None]) -> tuple[str, ...]:
    return tuple(name for name in tenants if name is not None)


def _touches(reason: str, tables: set[str]) -> bool:
    known = REASONS.get(reason)
    return known is None or known.tables is None or bool(known.tables & tables)


def _not_recording(connection: Any, window: Window) -> list[Hole]:
    """Times between two recordings of a node."""
    rows = connection.execute(
        "SELECT node, started_ns, ended_ns FROM whole.recordings ORDER BY node, started_ns"
    ).fetchall()
    bounds = window.bounds()
    found = []
    for (node, started_ns, ended_ns), (next_node, until_ns, _) in pairwise(rows):
        if node != next_node:
            continue
        since_ns = ended_ns or _last_beat(connection, node, started_ns, until_ns)
        start, end = max(since_ns, bounds["from"]), min(until_ns, bounds["to"])
        if start < end:
            found.append(Hole(DOWN, (), (), Interval(start, end), end - start, None))
    return found


def forgotten(
    connection: Any, segments: Iterable[Segment], tables: Iterable[str], window: Window
) -> tuple[Hole, ...]:
    """Times of which rollups are kept, and ``losses`` are not: who knows what is missing?"""
    wanted = set(tables) & ROLLUP_TABLES
    rollups: dict[str, Interval] = {}
    known: dict[str, int] = {}
    for segment in segments:
        node, first_ns, last_ns = segment.node, segment.min_ns, segment.max_ns
        if first_ns is None or last_ns is None:
            continue
        if segment.table == "losses":
            known[node] = min(first_ns, known.get(node, first_ns))
        elif segment.table in wanted:
            now = rollups.get(node, Interval(first_ns, last_ns))
            rollups[node] = Interval(min(first_ns, now.start_ns), max(last_ns, now.end_ns))
    unsure = {
        node: Interval(kept.start_ns, known.get(node, kept.end_ns))
        for node, kept in rollups.items()
        if kept.start_ns + _SLACK_NS < known.get(node, kept.end_ns)
    }
    if not unsure:
        return ()
    began = dict(
        connection.execute("SELECT node, min(started_ns) FROM whole.recordings GROUP BY 1")
        .fetchall()
    )  # fmt: skip
    bounds = window.bounds()
    found = []
    for node, kept in unsure.items():
        start = max(kept.start_ns, began.get(node, kept.end_ns), bounds["from"])
        end = min(kept.end_ns, bounds["to"])
        if start + _SLACK_NS < end:
            found.append(Hole(_FORGOTTEN, (), (), Interval(start, end), end - start, None))
    return tuple(found)


def _last_beat(connection: Any, node: str, started_ns: int, until_ns: int) -> int:
    """When a recording that was killed last wrote anything."""
    (row,) = connection.execute(
        "SELECT max(timestamp_ns) FROM whole.beats "
        "WHERE node = $node AND timestamp_ns >= $from AND timestamp_ns < $to",
        {"node": node, "from": started_ns, "to": until_ns},
    ).fetchall()
    return row[0] if row[0] is not None else started_ns
