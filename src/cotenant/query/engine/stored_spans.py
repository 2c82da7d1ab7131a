"""Which rows have their spans stored: those of recordings that made them as they recorded."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from cotenant.query.text.sql import quoted
from cotenant.store.manifest import Segment

MACRO: Final = "without_spans"
_RECORDINGS: Final = (
    "SELECT node, coalesce(spans_from_ns, started_ns) AS began_ns, spans_from_ns IS NOT NULL "
    "FROM sessions ORDER BY node, began_ns"
)

_MANY: Final = 1_000_000  # Rows that it takes long to derive spans from.


def underived(connection: Any, segments: Iterable[Segment]) -> int:
    """Recordings whose spans are derived each time; none if that is quick."""
    if sum(s.rows for s in segments if s.table == "cuda_events") < _MANY:
        return 0
    rows = connection.execute(
        "SELECT count(*) FROM sessions WHERE spans_from_ns IS NULL"
    ).fetchall()
    return int(rows[0][0])


def create_macro(connection: Any, *, derive: bool) -> None:
    """``without_spans(node, time)``: whether a row then has to be made part of a span."""
    recordings = connection.execute(_RECORDINGS).fetchall()
    stored = " OR ".join(_stored(recordings))
    answer = f"NOT ({stored})" if stored else "true"
    # A constant, so that no row is read only to be left out.
    if derive:
        answer = "true"
    elif recordings and _all_stored(recordings):
        answer = "false"
    connection.execute(f"CREATE OR REPLACE MACRO {MACRO}(node_, time_) AS {answer}")


def _all_stored(recordings: Iterable[tuple[str, int, bool]]) -> bool:
    return all(stored for _, _, stored in recordings)


def _stored(recordings: Iterable[tuple[str, int, bool]]) -> list[str]:
    """SQL conditions: the node, and from when to when."""
    found = []
    for node, of_node in groupby(recordings, key=lambda row: row[0]):
        began: int | None = None
        for _, began_ns, stored in of_node:
            if stored and began is None:
                began = began_ns
            elif not stored and began is not None:
                found.append(f"node_ = {quoted(node)} AND time_ BETWEEN {began} AND {began_ns - 1}")
                began = None
        if began is not None:
            found.append(f"node_ = {quoted(node)} AND time_ >= {began}")
    return found
