"""How long rows are kept: by age and by bytes, oldest first.

Rollups say in a few bytes what the rows said, so they stay ``LONGER`` times as long. Who a tenant
was stays as long as anything that names it: containers and sessions go last, and only by age.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.store.manifest import Segment
from cotenant.store.writer import StoreWriter

LONGER: Final = 10
_LONG_LIVED: Final = frozenset({"rollups", "containers", "sessions"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be kept; None is without limit."""

    keep_ns: int | None = None
    max_bytes: int | None = None


def _age_limit(segment: Segment, keep_ns: int) -> int:
    return keep_ns * LONGER if segment.table in _LONG_LIVED else keep_ns


def expired(segments: tuple[Segment, ...], limits: Limits, now_ns: int) -> list[Segment]:
    """The segments to let go, oldest first."""
    timed = sorted((s for s in segments if s.max_ns is not None), key=lambda s: s.max_ns or 0)
    gone: list[Segment] = []
    if limits.keep_ns is not None:
        keep = limits.keep_ns
        gone = [s for s in timed if (s.max_ns or 0) < now_ns - _age_limit(s, keep)]
    if limits.max_bytes is not None:
        rest = [s for s in timed if s not in gone]
        excess = sum(s.bytes for s in segments) - sum(s.bytes for s in gone) - limits.max_bytes
        # Rollups are the last to go: they answer for the rows that went before them.
        for segment in sorted(rest, key=lambda s: (s.table in _LONG_LIVED, s.max_ns or 0)):
            if excess <= 0:
                break
            gone.append(segment)
            excess -= segment.bytes
    return gone


class Retention:
    """Holds a store to its limits, step by step."""

    def __init__(self, store: StoreWriter, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def step(self, now_ns: int) -> bool:
        """Let go of what is too old or too much; whether there was any."""
        gone = expired(self._store.segments, self._limits, now_ns)
        if gone:
            self._store.supersede(gone, None, now_ns)
        return bool(gone)
