"""How complete an answer is: what was lost, or never recorded, of the tables it reads."""

import json
from collections.abc import Iterable
from typing import Any, Final

from cotenant.query.engine.answer import Interval, Loss
from cotenant.query.engine.window import Window
from cotenant.schema import TABLES
from cotenant.schema.families import FAMILIES, GPU_FAMILIES
from cotenant.schema.folding import ROLLUP_TABLES, SHOWN_BY
from cotenant.store.manifest import Segment

_EVENTS: Final = "_events"
# Computed from a family's rows, so a lost row is missing here too. `totals` are exact.
_COMPUTED_FROM: Final = {
    **dict.fromkeys(
        ("gpu_memory", "graph_kernels", "gpu_timings", "imported_times", "spans", "span_mixes"),
        "cuda",
    ),
    **dict.fromkeys((name for name in ROLLUP_TABLES if name.startswith("gpu_")), "cuda"),
    "cpu_contention": "host",
}
# What no probe saw is missing from these, too; what was lost after that is in them.
_OF_CALLS: Final = {"totals": tuple(FAMILIES), "in_flight": GPU_FAMILIES}
# Of every family.
_OF_ALL: Final = frozenset(name for name in ROLLUP_TABLES if name.startswith("rollup"))

# Rows are told once a second: what was lost at the end of a window is told after it. A row of an
# old store says when it was told, and no more.
_LOST: Final = """
SELECT family,
       sum(seen) FILTER (within OR (touched AND lost + shed > 0))::BIGINT,
       coalesce(sum(lost) FILTER (touched), 0)::BIGINT,
       coalesce(sum(shed) FILTER (touched), 0)::BIGINT
  FROM (SELECT *, timestamp_ns >= $from AND timestamp_ns < $to AS within,
               coalesce(from_ns, timestamp_ns) < $to AND coalesce(to_ns, timestamp_ns) >= $from
               AS touched
          FROM whole.holes
         WHERE list_contains($families, family))
 WHERE (within AND seen + stored + queued <> 0) OR (touched AND lost + shed > 0)
 GROUP BY family ORDER BY family"""


def with_shown(tables: Iterable[str]) -> set[str]:
    """The tables, and those by which minutes and hours are shown."""
    return {name for table in tables for name in (table, SHOWN_BY.get(table, table))}


def families_of(tables: Iterable[str]) -> list[str]:
    """The event families behind these tables."""
    found = {t.removesuffix(_EVENTS) for t in tables if t in TABLES and t.endswith(_EVENTS)}
    found |= {_COMPUTED_FROM[t] for t in tables if t in _COMPUTED_FROM}
    if not _OF_ALL.isdisjoint(tables):
        found |= {t.removesuffix(_EVENTS) for t in TABLES if t.endswith(_EVENTS)}
    return sorted(found)


def families_seen_by(tables: Iterable[str]) -> list[str]:
    """The event families that these tables have nothing of where no probe sees them."""
    named = with_shown(tables)
    counted = {family for table in named & _OF_CALLS.keys() for family in _OF_CALLS[table]}
    return sorted(counted.union(families_of(named)))


def losses_of(connection: Any, tables: Iterable[str], window: Window) -> tuple[Loss, ...]:
    """What these tables lost in the session's window; empty if no losses were counted."""
    families = families_of(tables)
    if not families:
        return ()
    rows = connection.execute(_LOST, {"families": families} | window.bounds()).fetchall()
    return tuple(Loss(*row) for row in rows)


def unrecorded_of(connection: Any, tables: Iterable[str], window: Window) -> tuple[str, ...]:
    """What the recordings in the window could not get from their kernel of these tables."""
    families = families_seen_by(tables)
    if not families:
        return ()
    rows = connection.execute(
        "SELECT DISTINCT hooks_refused FROM whole.recordings "
        "WHERE started_ns < $to AND coalesce(ended_ns, $from) >= $from",
        window.bounds(),
    ).fetchall()
    found: dict[str, None] = {}  # An ordered set.
    for (refused,) in rows:
        for program, text in json.loads(refused).items():
            if program.partition("_")[0] in families:
                # The reason, in brackets, is for those who record.
                found[text.partition(" (")[0]] = None
    return tuple(found)


def interval_of(
    segments: Iterable[Segment], tables: Iterable[str], window: Window
) -> Interval | None:
    """From the first to the last row of these tables, within the session's window."""
    wanted = set(tables)
    covered = [s for s in segments if s.table in wanted and window.covers(s)]
    starts = [s.min_ns for s in covered if s.min_ns is not None]
    ends = [s.max_ns for s in covered if s.max_ns is not None]
    if not starts or not ends:
        return None
    start, end = min(starts), max(ends)
    if window.from_ns is not None:
        start = max(start, window.from_ns)
    if window.to_ns is not None:
        end = min(end, window.to_ns)
    return Interval(start, end)
