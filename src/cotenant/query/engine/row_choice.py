"""Whether calls of a time are counted from rows, or from rollups.

Rows are read where they are asked for: in a window of up to an hour. A longer one reads what was
added up while it was recorded; so does a time of which no rows are left.
"""

from collections.abc import Sequence
from typing import Any, Final

from cotenant.query.engine import stored_spans
from cotenant.query.engine.window import Window
from cotenant.query.text.sql import quoted
from cotenant.schema.folding import HOUR_NS, SECOND_NS
from cotenant.store.manifest import Segment

MACRO: Final = "by_rows"
_ROWS: Final = "cuda_events"
_SECONDS: Final = "rollups"
_ALL: Final = frozenset({_SECONDS, "rollup_minutes", "rollup_hours"})


def create_macro(connection: Any, segments: Sequence[Segment], window: Window) -> None:
    """``by_rows(node, time)``: whether CUDA calls that began then are counted from rows."""
    of_node: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.table == _ROWS or segment.table in _ALL:
            of_node.setdefault(segment.node, []).append(segment)
    short = window.length_ns(segments) <= HOUR_NS
    chosen = [_chosen(node, own, short=short) for node, own in of_node.items()]
    answer = " OR ".join(f"({one})" for one in chosen) or "true"
    connection.execute(f"CREATE OR REPLACE MACRO {MACRO}(node_, time_) AS {answer}")


def _chosen(node: str, segments: Sequence[Segment], *, short: bool) -> str:
    """SQL condition: a time of this node of which rows are read."""
    here = f"node_ = {quoted(node)}"
    rows = [s.min_ns for s in segments if s.table == _ROWS and s.min_ns is not None]
    sums = [s for s in segments if s.table in _ALL and s.min_ns is not None]
    if not rows:
        return "false"
    if not sums:
        return here
    first = min(rows)
    if min(s.min_ns or 0 for s in sums) // SECOND_NS < first // SECOND_NS:
        # Rows before were deleted. No rollup reaches from one hour into the next.
        here += f" AND time_ >= {-(-first // HOUR_NS) * HOUR_NS}"
    if short:
        return here
    # Of the last seconds there are rows, and no rollups yet.
    told = max((s.max_ns or 0 for s in sums if s.table == _SECONDS), default=0) + SECOND_NS
    return f"{here} AND (time_ >= {told} OR {stored_spans.MACRO}(node_, time_))"
