"""For how long the device was at anything of a tenant: the union of what its spans hold.

Of a span of which the device was at it for a part, that part is even over its time; spans on
several streams are taken not to depend on each other.
"""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.device_spans import DeviceSpans
from cotenant.query.derived.intervals import Intervals

Floats = NDArray[np.float64]

_MOST: Final = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Timeline:
    """The spans of a tenant on a GPU, in nanoseconds since an origin, and their union."""

    start: Floats
    end: Floats
    all: Intervals
    certain: Intervals
    _order: NDArray[np.int64]
    _moments: Floats
    _whose: NDArray[np.int64]

    @classmethod
    def of(cls, spans: DeviceSpans, origin: int, begin: float, finish: float) -> Self:
        """Within a window from ``begin`` to ``finish``."""
        start, end = ((t - origin).astype(np.float64) for t in (spans.start, spans.end))
        sure = spans.certain_until > spans.certain_from
        low, until = (
            (t[sure] - origin).astype(np.float64) for t in (spans.certain_from, spans.certain_until)
        )
        by_end = np.argsort(end, kind="stable")
        moments = np.concatenate([start, end[by_end]])
        order = np.argsort(moments, kind="stable")
        return cls(
            start=start,
            end=end,
            all=Intervals.of(start, end, begin, finish),
            certain=Intervals.of(low, until, begin, finish),
            _order=order,
            _moments=moments[order],
            _whose=np.concatenate([np.arange(len(start)), by_end])[order],
        )

    def at_work(self, taken: Floats, certain: Floats) -> float:
        """For how long the device was at any span, where it was for so long at each."""
        length = self.end - self.start
        rest = np.clip((taken - certain) / np.maximum(length - certain, 1.0), 0.0, _MOST)
        log = np.log1p(-rest)
        change = np.where(self._order < len(log), log[self._whose], -log[self._whose])
        idle = np.exp(np.minimum(np.cumsum(change), 0.0))
        steps = np.diff(self._moments)
        upto = np.concatenate([[0.0], np.cumsum((1 - idle[:-1]) * steps)])
        edges = np.array([self.all.begin, self.all.end])
        found = float(np.diff(np.interp(edges, self._moments, upto))[0])
        sure = self.certain
        inside = np.interp(sure.ends, self._moments, upto) - np.interp(
            sure.starts, self._moments, upto
        )
        return found - float(inside.sum()) + sure.total
