"""Whether calls of a time are counted from rows, or from rollups.

Rows are read where they are asked for: in a window of up to an hour. A longer one reads what was
added up while it was recorded; so does a time of which no rows are left.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from cotenant.query.engine.window import Window
from cotenant.query.text.sql import quoted
from cotenant.schema import EVENTS
from cotenant.schema.folding import HOUR_NS, SECOND_NS
from cotenant.store.absence import Absent
from cotenant.store.manifest import Segment
from cotenant.store.periods import changed_periods

# What goes when it is older than rows are kept, of whichever family there is most.
_ROWS: Final = frozenset({*(table.name for table in EVENTS), "spans"})
_SECONDS: Final = "rollups"
_FEW: Final = 1_000_000
_ROLLUPS: Final = frozenset({_SECONDS, "rollup_minutes", "rollup_hours"})
_GPU: Final = frozenset({"gpu_seconds", "gpu_minutes", "gpu_hours"})


def create_macros(
    connection: Any, segments: Sequence[Segment], window: Window, absent: Mapping[str, Absent]
) -> None:
    """``by_rows(node, time)``: whether CUDA calls that began then are counted from rows;
    ``by_spans(node, time)``: whether work that began then is known by spans; ``few_spans()``:
    whether these are few enough to be put in order.
    """
    of_node: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.table in _ROLLUPS | _GPU or (segment.table in _ROWS and _has_rows(segment)):
            of_node.setdefault(segment.node, []).append(segment)
    short = window.length_ns(segments) <= HOUR_NS
    since = {node: _gone_until(absent.get(node, {})) for node in of_node}
    edges = "" if short else _edges(window)
    rows = [_counted_by_rows(n, own, since[n], edges, short=short) for n, own in of_node.items()]
    spans = [_left(node, own, _GPU, since[node]) for node, own in of_node.items()]
    few = sum(s.rows for s in segments if s.table == "spans" and window.covers(s)) <= _FEW
    connection.execute(f"CREATE OR REPLACE MACRO few_spans() AS {str(few).lower()}")
    for macro, chosen in (("by_rows", rows), ("by_spans", spans)):
        # A constant, so that nothing is read only to be left out.
        answer = "true" if _all_whole(chosen) else " OR ".join(f"({one})" for one in chosen)
        connection.execute(f"CREATE OR REPLACE MACRO {macro}(node_, time_) AS {answer}")


def _has_rows(segment: Segment) -> bool:
    """Whether other rows of its time are there, too: collectives are shipped without them."""
    return not changed_periods([segment.path])


def _all_whole(conditions: list[str]) -> bool:
    return all(" AND " not in one and one != "false" for one in conditions)


def _gone_until(absent: Absent) -> int:
    """Until when rows of any table were let go: the file of another may reach further back."""
    return max((end for t in _ROWS for start, end in absent.get(t, ()) if not start), default=0)


def _left(node: str, segments: Sequence[Segment], sums: Set[str], since_ns: int) -> str:
    """SQL condition: a time of this node of which rows are left."""
    here = f"node_ = {quoted(node)}"
    left = [s.min_ns for s in segments if s.table in _ROWS and s.min_ns is not None]
    told = [s.min_ns for s in segments if s.table in sums and s.min_ns is not None]
    if not left:
        return "false" if told else here
    first_ns = max(min(left), since_ns)
    if told and min(told) // SECOND_NS < first_ns // SECOND_NS:
        # Rows before were deleted. No rollup reaches from one hour into the next.
        here += f" AND time_ >= {-(-first_ns // HOUR_NS) * HOUR_NS}"
    return here


def _edges(window: Window) -> str:
    """SQL condition: the hours in which the window begins and ends; no rollup reaches into both."""
    found = ""
    if window.from_ns is not None:
        found += f" OR time_ < {-(-window.from_ns // HOUR_NS) * HOUR_NS}"
    if window.to_ns is not None:
        found += f" OR time_ >= {window.to_ns // HOUR_NS * HOUR_NS}"
    return found


def _counted_by_rows(
    node: str, segments: Sequence[Segment], since_ns: int, edges: str, *, short: bool
) -> str:
    here = _left(node, segments, _ROLLUPS, since_ns)
    told = [s.max_ns or 0 for s in segments if s.table in _ROLLUPS]
    if short or not told or here == "false":
        return here
    # Of the last seconds there are rows, and no rollups yet.
    last = max((s.max_ns or 0 for s in segments if s.table == _SECONDS), default=0) + SECOND_NS
    return f"{here} AND (time_ >= {last}{edges})"
