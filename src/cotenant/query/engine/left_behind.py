"""Rows that a shipper left on their node: a far store has what they were added up to.

It has their ``losses`` by the minute, which tell how many rows there were.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cotenant.query.derived.registry import DERIVED, with_sources
from cotenant.query.engine.completeness import families_of
from cotenant.query.engine.window import Window
from cotenant.schema import EVENTS
from cotenant.schema.dimensions import LOSSES
from cotenant.store.manifest import Segment
from cotenant.store.periods import SECOND_NS, changed_periods, told_by

_EVENTS: Final = frozenset(table.name for table in EVENTS)
# Tables of which nothing is shipped by the minute, or not every row.
LEFT: Final = _EVENTS | {"spans", "span_mixes", "gpu_timings", "graph_kernels", "cpu_contention"}
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
        (segment.node, period.start_ns, period.end_ns)
        for segment in segments
        if segment.table == LOSSES.name
        for period in changed_periods([segment.path])
    ]
    if not by_minute:
        return ()
    return tuple(
        table
        for table in sorted(_read(frozenset(named)))
        if connection.execute(
            _TOLD,
            _columns("", by_minute)
            | _columns("row_", [_reach(s) for s in segments if s.table == table and _has_all(s)])
            | {"families": families_of([table])}
            | window.bounds(),
        ).fetchall()
    )


def _read(named: frozenset[str]) -> frozenset[str]:
    """Tables of rows that an answer lacks if they are not there.

    Where there are none, some derived tables have what was added up instead.
    """
    if any(name in DERIVED and DERIVED[name].before for name in named):
        return named & LEFT - DERIVED.keys()
    return named & LEFT | with_sources(named) & _EVENTS


def _has_all(segment: Segment) -> bool:
    """Whether no rows were left out."""
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
