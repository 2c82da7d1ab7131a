"""Holes in an answer: times in which something of its tables went unseen, and whose."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from time import time_ns
from typing import Any, Final

from cotenant.query.engine.answer import Hole, Interval
from cotenant.query.engine.completeness import families_seen_by, with_shown
from cotenant.query.engine.statement import Operations
from cotenant.query.engine.window import Window
from cotenant.schema.folding import ROLLUP_TABLES
from cotenant.schema.holes import REASONS, WITH_OPERATIONS
from cotenant.store.manifest import Segment

DOWN: Final = "nothing recorded"
KILLED: Final = "spans of a killed recording not stored"
_FORGOTTEN: Final = "losses no longer kept"
# A recording counts what it lost from its first second on.
_SLACK_NS: Final = 60_000_000_000
# A recorder seals twice a second, on a busy host less often.
_SILENT_NS: Final = 30_000_000_000
# Whoever gives a time rounds it.
_ROUNDED_NS: Final = 2_000_000_000
_SPANS: Final = frozenset({"spans", "span_mixes"})
SHOWN: Final = 4  # Tenants of a hole.

# Pieces of one hole may overlap: two libraries of a tenant that were probed late.
_HOLES: Final = f"""
WITH pieces AS (
SELECT reason, family, cgroup_id, unseen,
       greatest(from_ns, $from) AS from_ns, least(to_ns, $to) AS to_ns
  FROM whole.holes
 WHERE from_ns < $to AND to_ns >= $from AND lost + shed = 0
   AND (list_contains($families, family) OR list_contains($reasons, reason))
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
  FROM by_cgroup LEFT JOIN whole.owners USING (cgroup_id)
 GROUP BY reason, families"""


def touches_losses(tables: Iterable[str]) -> bool:
    """Whether rows of these tables can have been lost, or gone unseen."""
    named = with_shown(tables)
    return bool(families_seen_by(named) or _about(named))


def _about(tables: set[str]) -> list[str]:
    """Reasons that name one of these tables."""
    return sorted(name for name, reason in REASONS.items() if (reason.tables or set()) & tables)


def holes_of(
    connection: Any,
    tables: Iterable[str],
    window: Window,
    written: Mapping[str, int],
    operations: Operations = None,
) -> tuple[Hole, ...]:
    """What went unseen of these tables in the session's window, by reason.

    ``written`` says when each node was last written to, ``operations`` which rows are read.
    """
    named = with_shown(tables)
    touching = {"families": families_seen_by(named), "reasons": _about(named)}
    if not any(touching.values()):
        return ()
    rows = connection.execute(_HOLES, touching | window.bounds()).fetchall()
    found = [
        Hole(reason, tuple(of), _whose(tenants), Interval(start, end), blind_ns, unseen)
        for reason, of, start, end, blind_ns, unseen, tenants in rows
        if _touches(reason, named, operations)
    ]
    if named & _SPANS:
        found += _killed(connection, window, written)
    return in_order(found, _not_recording(connection, window, written))


def in_order(holes: Iterable[Hole], down: Iterable[Hole]) -> tuple[Hole, ...]:
    """The longest first; then when there was no recorder."""
    by_length = sorted(holes, key=lambda hole: (-hole.blind_ns, hole.reason, hole.families))
    return (*by_length, *sorted(down, key=lambda hole: hole.interval.start_ns))


def _whose(tenants: list[str | None]) -> tuple[str, ...]:
    return tuple(name for name in tenants if name is not None)


def _touches(reason: str, tables: set[str], operations: Operations) -> bool:
    known = REASONS.get(reason)
    if known is None or known.tables is None:
        return True
    touched = known.tables & tables
    if known.op is not None and touched <= WITH_OPERATIONS and operations is not None:
        return known.op in operations
    return bool(touched)


def _not_recording(connection: Any, window: Window, written: Mapping[str, int]) -> list[Hole]:
    """Times in which a node had no recorder."""
    rows = connection.execute(
        "SELECT node, started_ns, ended_ns FROM whole.recordings ORDER BY node, started_ns"
    ).fetchall()
    bounds = window.bounds()
    found = []
    for node, recordings in groupby(rows, key=lambda row: row[0]):
        times = [(started_ns, ended_ns) for _, started_ns, ended_ns in recordings]
        gaps = [
            (ended_ns or _last_beat(connection, node, started_ns, until_ns), until_ns)
            for (started_ns, ended_ns), (until_ns, _) in pairwise(times)
        ]
        if window.throughout:
            gaps += _edges(connection, node, times, window, written.get(node, 0))
        for since_ns, until_ns in gaps:
            start, end = max(since_ns, bounds["from"]), min(until_ns, bounds["to"])
            if start < end:
                found.append(Hole(DOWN, (), (), Interval(start, end), end - start, None))
    return found


def _killed(connection: Any, window: Window, written: Mapping[str, int]) -> list[Hole]:
    """Work that was in flight, or just done, when its recording was killed."""
    rows = connection.execute(
        "SELECT node, started_ns, spans_until_ns, lead(started_ns) OVER "
        "(PARTITION BY node ORDER BY started_ns) AS next_ns FROM whole.recordings "
        "QUALIFY ended_ns IS NULL AND spans_until_ns IS NOT NULL"
    ).fetchall()
    bounds, now_ns = window.bounds(), time_ns()
    found = []
    for node, started_ns, until_ns, next_ns in rows:
        if next_ns is None and now_ns - written.get(node, now_ns) <= _SILENT_NS:
            continue  # It still runs.
        last_ns = _last_beat(connection, node, started_ns, next_ns or now_ns)
        start, end = max(until_ns, bounds["from"]), min(last_ns, bounds["to"])
        if start < end:
            found.append(Hole(KILLED, (), (), Interval(start, end), end - start, None))
    return found


def _edges(
    connection: Any,
    node: str,
    times: Sequence[tuple[int, int | None]],
    window: Window,
    written_ns: int,
) -> list[tuple[int, int]]:
    """From the window's start to a node's first recording, and from the last to its end, or now."""
    now_ns = time_ns()
    first_ns, (started_ns, ended_ns) = times[0][0], times[-1]
    found = [] if window.from_ns is None else [(window.from_ns, first_ns)]
    # One that has not ended goes on as long as it writes, whether there are events or not.
    if window.to_ns is not None and (ended_ns is not None or now_ns - written_ns > _SILENT_NS):
        last_ns = ended_ns or _last_beat(connection, node, started_ns, now_ns)
        found.append((last_ns, min(window.to_ns, now_ns)))
    return [(start, end) for start, end in found if end - start > _ROUNDED_NS]


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
