"""The newest part of a store: as much of it as can be shown at once."""

from collections.abc import Iterable
from typing import Final

from cotenant.schema.families import FAMILIES
from cotenant.store.manifest import Segment

MOST_AT_ONCE: Final = 1_000_000  # Rows that are read while somebody waits.
_SECOND_NS: Final = 1_000_000_000
EVENT_TABLES: Final = tuple(family.table.name for family in FAMILIES.values())


def newest_part(segments: Iterable[Segment], most: int = MOST_AT_ONCE) -> int | None:
    """The second in which the newest so many events begin; None if there are no more than that."""
    left = most
    for segment in sorted(filter(_has_events, segments), key=_end_ns, reverse=True):
        if segment.rows > left:
            # As if its rows were spread evenly.
            end_ns = _end_ns(segment)
            start_ns = end_ns - (end_ns - (segment.min_ns or 0)) * left // segment.rows
            return -(-start_ns // _SECOND_NS) * _SECOND_NS
        left -= segment.rows
    return None


def newest_known_ns(segments: Iterable[Segment]) -> int:
    """When the last event began that a manifest tells of; 0 without any."""
    return max(map(_end_ns, filter(_has_events, segments)), default=0)


def _has_events(segment: Segment) -> bool:
    return segment.table in EVENT_TABLES and segment.rows > 0


def _end_ns(segment: Segment) -> int:
    return segment.max_ns or 0
