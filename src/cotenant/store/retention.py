"""How long rows are kept: by age and by bytes, oldest first.

Rollups say in a few bytes what the rows said, so they have a limit of their own; the older ones are
minutes and hours (``folding.py``). The kernels of graphs and the mixes of spans, which are used for
long after they were first, stay ``LONGER`` times as long as rows. What rows lack is known as long
as they are there: ``losses`` go after the last row of a segment that they may tell of. Who a tenant
was stays as long as anything that may name it: a snapshot, or a page of one, goes when the
next one began before the oldest row that is left.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from cotenant.schema.dimensions import LOSSES
from cotenant.schema.folding import ROLLUP_TABLES
from cotenant.store.manifest import Segment
from cotenant.store.snapshot import written_at
from cotenant.store.writer import StoreWriter

LONGER: Final = 10
USED_LATER: Final = frozenset({"graph_kernels", "imported_times", "span_mixes"})
_LONG_LIVED: Final = USED_LATER | ROLLUP_TABLES


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """What may be kept; None is without limit."""

    keep_ns: int | None = None
    max_bytes: int | None = None
    keep_rollups_ns: int | None = None  # Never shorter than rows are kept.

    def oldest_ns(self, table: str) -> int | None:
        """How old rows of this table may become."""
        if table in ROLLUP_TABLES:
            limits = (self.keep_ns, self.keep_rollups_ns)
            return None if None in limits else max(limit or 0 for limit in limits)
        if self.keep_ns is None:
            return None
        return self.keep_ns * (LONGER if table in USED_LATER else 1)


def expired(segments: tuple[Segment, ...], limits: RetentionLimits, now_ns: int) -> list[Segment]:
    """The segments to let go, oldest first."""
    needed_ns = _last_needed(segments)
    timed = sorted((s for s in segments if s.max_ns is not None), key=needed_ns)
    gone: list[Segment] = []
    rest: list[Segment] = []
    for segment in timed:
        oldest_ns = limits.oldest_ns(segment.table)
        too_old = oldest_ns is not None and needed_ns(segment) < now_ns - oldest_ns
        (gone if too_old else rest).append(segment)
    if limits.max_bytes is not None:
        excess = sum(s.bytes for s in segments) - sum(s.bytes for s in gone) - limits.max_bytes
        # Rollups are among the last to go: they answer for the rows that went before them.
        rest.sort(key=lambda s: (s.table in _LONG_LIVED, needed_ns(s), s.table == LOSSES.name))
        while rest and excess > 0:
            excess -= rest[0].bytes
            gone.append(rest.pop(0))
    return gone + (_unneeded(segments, rest) if gone else [])


def _last_needed(segments: tuple[Segment, ...]) -> Callable[[Segment], int]:
    """By a segment, the time of the last row that needs it: its own, or one that it tells of."""
    rows = sorted(
        (s.min_ns, s.max_ns)
        for s in segments
        if s.table not in _LONG_LIVED | {LOSSES.name}
        and s.min_ns is not None
        and s.max_ns is not None
    )
    starts = [start for start, _ in rows]
    ends = list(accumulate((end for _, end in rows), max))

    def needed_ns(segment: Segment) -> int:
        own = segment.max_ns or 0
        begun = bisect_right(starts, own) if segment.table == LOSSES.name else 0
        return max(own, ends[begun - 1]) if begun else own

    return needed_ns


def _unneeded(segments: tuple[Segment, ...], rest: list[Segment]) -> list[Segment]:
    """Snapshots that nothing left can refer to; the latest of each table always stays."""
    oldest = min((s.min_ns for s in rest if s.min_ns is not None), default=None)
    if oldest is None:
        return []
    snapshots: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.key is not None:
            snapshots.setdefault(segment.table, []).append(segment)
    found = []
    for group in snapshots.values():
        group.sort(key=written_at)
        found += [s for s, following in pairwise(group) if written_at(following)[0] < oldest]
    return found


class Retention:
    """Holds a store to its limits, step by step."""

    def __init__(self, store: StoreWriter, limits: RetentionLimits) -> None:
        self._store = store
        self._limits = limits

    def step(self, now_ns: int) -> bool:
        """Let go of what is too old or too much; whether there was any."""
        gone = expired(self._store.segments, self._limits, now_ns)
        if gone:
            self._store.supersede(gone, None, now_ns)
        return bool(gone)
