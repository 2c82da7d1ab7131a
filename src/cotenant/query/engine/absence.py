"""Times of an answer of which its store keeps no rows: they were let go, or never brought."""

from collections.abc import Iterable, Mapping
from time import time_ns
from typing import Any, Final

from cotenant.query.derived.registry import DERIVED
from cotenant.query.engine.answer import Hole, Interval
from cotenant.query.engine.completeness import families_seen_by
from cotenant.query.engine.window import Window
from cotenant.schema import TABLES
from cotenant.schema.folding import ROLLUP_TABLES, SHOWN_BY
from cotenant.store.absence import EVER_NS, Absent, Times, both, either

_REASON: Final = "rows not kept here"

_RECORDED: Final = """
SELECT node, min(started_ns), max(coalesce(ended_ns, $now))
  FROM whole.recordings GROUP BY node"""


def not_kept(
    connection: Any, absent: Mapping[str, Absent], named: Iterable[str], window: Window
) -> tuple[Hole, ...]:
    """The times for which a window was given, and of which a node recorded more than is here."""
    if not window.throughout:
        return ()
    lacking = {node: _of_answer(frozenset(named), own) for node, own in absent.items()}
    if not any(lacking.values()):
        return ()
    times = []
    for node, first_ns, last_ns in connection.execute(_RECORDED, {"now": time_ns()}).fetchall():
        # As far as nobody said when, it is asked about as much as there is.
        asked = either(
            ((max(first_ns, window.from_ns or 0), min(last_ns, window.to_ns or EVER_NS)),)
        )
        found = [
            piece
            for piece in lacking.get(node, ())
            if (piece[0] > 0 or window.from_ns is not None)
            and (piece[1] < EVER_NS or window.to_ns is not None)
        ]
        times.append(both(tuple(found), asked))
    return _one(list(filter(None, times)))


def _one(times: list[Times]) -> tuple[Hole, ...]:
    """All nodes' as one; for how long is told of the one that lacks most."""
    if not times:
        return ()
    around = Interval(min(own[0][0] for own in times), max(own[-1][1] for own in times))
    most_ns = max(sum(end - start for start, end in own) for own in times)
    return (Hole(_REASON, (), (), around, most_ns, None),)


def _of_answer(named: frozenset[str], absent: Absent) -> Times:
    """Of which times an answer from these tables lacks rows of a node."""
    if any(name in DERIVED and DERIVED[name].before for name in named):
        # They answer for times without rows, too, and what they are read with adds to that.
        named = frozenset(
            name
            for name in named
            if name not in DERIVED or DERIVED[name].before or name in ROLLUP_TABLES
        )
    return either(*(_of_table(name, absent) for name in named))


def _of_table(name: str, absent: Absent) -> Times:
    if name in TABLES:
        # Rows that became coarser are shown by the same table.
        parts = (name, *(table for table, shown in SHOWN_BY.items() if shown == name))
        return either(*(absent.get(part, ()) for part in parts if families_seen_by((part,))))
    if name not in DERIVED:
        return ()
    of_rows, older = (
        either(*(_of_table(source, absent) for source in sources))
        for sources in (DERIVED[name].sources, DERIVED[name].before)
    )
    return both(of_rows, older) if DERIVED[name].before else of_rows
