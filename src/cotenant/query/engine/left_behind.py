"""Rows that a shipper left on their node: a far store has what they were added up to.

It has their ``losses`` by the minute, which tell how many rows there were. They tell nothing of
``in_flight``: a call that has not returned is no row yet.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from cotenant.query.derived.registry import DERIVED, with_sources
from cotenant.query.engine.completeness import families_of
from cotenant.query.engine.window import Window
from cotenant.schema import EVENTS
from cotenant.schema.dimensions import IN_FLIGHT, LOSSES, TOTALS
from cotenant.schema.families import FAMILIES
from cotenant.schema.folding import SHOWN_BY
from cotenant.store.manifest import Segment
from cotenant.store.periods import (
    DAY_S,
    SECOND_NS,
    Period,
    around,
    changed_periods,
    told_by,
)

_EVENTS: Final = frozenset(table.name for table in EVENTS)
_SPANS: Final = frozenset({"spans", "span_mixes"})
# Nothing else tells what they do. Totals are shipped, but a far store may have begun without them.
_SAMPLED: Final = frozenset({TOTALS.name, IN_FLIGHT.name})
# Tables of which nothing is shipped by the minute, or not every row.
LEFT: Final = (
    _EVENTS
    | _SAMPLED
    | _SPANS
    | {*("gpu_timings", "imported_times", "graph_kernels", "cpu_contention")}
)
# Made of rows of which those that count are shipped.
_WHOLE: Final = frozenset({"jobs"})
_LATE_NS: Final = 60 * SECOND_NS  # A row is counted when it is sealed.

_TOLD: Final = """
WITH by_minute AS (
SELECT unnest($nodes::VARCHAR[]) AS node, unnest($starts::BIGINT[]) AS start_ns,
       unnest($ends::BIGINT[]) AS end_ns
), there AS (
SELECT unnest($row_nodes::VARCHAR[]) AS node, unnest($row_starts::BIGINT[]) AS start_ns,
       unnest($row_ends::BIGINT[]) AS end_ns
)
SELECT 1
  FROM (FROM whole.holes
         WHERE stored > 0 AND timestamp_ns >= $from AND timestamp_ns < $to
           AND list_contains($families, family)) l
  SEMI JOIN by_minute m
    ON m.node = l.node AND l.timestamp_ns >= m.start_ns AND l.timestamp_ns < m.end_ns
  ANTI JOIN there t
    ON t.node = l.node AND l.timestamp_ns >= t.start_ns AND l.timestamp_ns < t.end_ns
 LIMIT 1"""

_NodePeriod = tuple[str, int, int]  # From when, and until when.
_PERIOD: Final = ("nodes", "starts", "ends")


def left_behind(
    connection: Any, segments: Sequence[Segment], named: Iterable[str], window: Window
) -> tuple[str, ...]:
    """The tables behind these names that had rows in the window which are not in this store."""
    by_minute = [
        (segment.node, period)
        for segment in segments
        if segment.table == LOSSES.name
        for period in changed_periods([segment.path])
    ]
    if not by_minute:
        return ()

    def lacks(table: str) -> bool:
        own = [s for s in segments if _tells(s, table) and _has_all(s)]
        without = _without(own, by_minute, window)
        if table == IN_FLIGHT.name:
            return any(without)
        times = [(node, period.start_ns, period.end_ns) for node, period in without]
        if not times:
            return False
        told = connection.execute(
            _TOLD,
            _columns("", times)
            | _columns("row_", [_reach(segment) for segment in own])
            | {"families": list(FAMILIES) if table == TOTALS.name else families_of([table])}
            | window.bounds(),
        )
        return bool(told.fetchall())

    return tuple(table for table in sorted(_read(frozenset(named))) if lacks(table))


def _read(named: frozenset[str]) -> frozenset[str]:
    """Tables of rows that an answer lacks if they are not there.

    Where there are none, some derived tables have what was added up instead. That stands for the
    rows behind them also where these are behind others that are named, such as spans.
    """
    older = frozenset(n for n in named if n in DERIVED and DERIVED[n].before)
    added_up = with_sources(older)
    plain = named & LEFT - DERIVED.keys() if older else named & LEFT
    made_of = _EVENTS if older else _EVENTS | _SPANS
    behind = with_sources(named & DERIVED.keys() - _WHOLE) & made_of - added_up
    return plain | behind | with_sources(named) & _SAMPLED


def _without(
    objects: Iterable[Segment], periods: Iterable[tuple[str, Period]], window: Window
) -> Iterator[tuple[str, Period]]:
    """Of these periods of nodes, as far as they are in the window, those without an object."""
    there = {(s.node, told.period) for s in objects if (told := told_by(s.path))}
    days = {(node, around(period.start_ns, DAY_S)) for node, period in there}
    bounds = window.bounds()
    for node, period in periods:
        day = around(period.start_ns, DAY_S)
        parts: Iterable[Period] = [period]
        if period == day and (node, day) in days:
            parts = period.windows()
        for part in parts if (node, day) not in there else ():
            within = part.start_ns < bounds["to"] and part.end_ns > bounds["from"]
            if within and (node, part) not in there:
                yield node, part


def _tells(segment: Segment, table: str) -> bool:
    """Whether its rows are those of a table, also by the minute or the hour."""
    return SHOWN_BY.get(segment.table, segment.table) == table


def _has_all(segment: Segment) -> bool:
    """Whether no rows were left out."""
    if segment.table in SHOWN_BY:
        return True
    told = told_by(segment.path)
    return told is None or told.whole or told.made_of == segment.rows


def _reach(segment: Segment) -> _NodePeriod:
    """When rows of a segment may have been counted."""
    told = told_by(segment.path)
    if told is not None:
        return segment.node, told.period.start_ns, told.period.end_ns + _LATE_NS
    return segment.node, segment.min_ns or 0, (segment.max_ns or 0) + _LATE_NS


def _columns(prefix: str, rows: Sequence[_NodePeriod]) -> dict[str, Any]:
    return {f"{prefix}{name}": [row[i] for row in rows] for i, name in enumerate(_PERIOD)}
