"""Intervals of one tenant, and how much of other intervals they cover."""

from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Times = TypeVar("Times", NDArray[np.float64], NDArray[np.int64])


def joined(starts: Times, ends: Times) -> tuple[Times, Times]:
    """The same intervals in order, joined where they touch."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    if len(starts):
        reached = np.maximum.accumulate(ends)
        opens = np.concatenate([[True], starts[1:] > reached[:-1]])
        starts, ends = starts[opens], reached[np.concatenate([opens[1:], [True]])]
    return starts, ends


@dataclass(frozen=True, slots=True)
class Intervals:
    """Disjoint intervals in order, within ``begin`` and ``end``."""

    starts: Floats
    ends: Floats
    begin: float
    end: float
    _before: Floats  # Length before each interval, and after the last.

    @classmethod
    def of(cls, starts: Floats, ends: Floats, begin: float, end: float) -> Self:
        """From any intervals: clipped, and joined where they touch."""
        starts = np.clip(starts, begin, end)
        ends = np.clip(ends, begin, end)
        kept = ends > starts
        starts, ends = joined(starts[kept], ends[kept])
        before = np.concatenate([[0.0], np.cumsum(ends - starts)])
        return cls(starts, ends, begin, end, before)

    @property
    def total(self) -> float:
        """Length of all."""
        return float(self._before[-1])

    def before(self, moments: Floats) -> Floats:
        """Length before each moment."""
        if not len(self.starts):
            return np.zeros(moments.shape)
        knots = np.column_stack([self.starts, self.ends]).ravel()
        until: Floats = np.interp(moments, knots, np.repeat(self._before, 2)[1:-1])
        return until

    def covers(self, moments: Floats) -> NDArray[np.bool_]:
        """Whether each moment is within an interval."""
        covered: NDArray[np.bool_] = np.searchsorted(self.starts, moments) > np.searchsorted(
            self.ends, moments
        )
        return covered

    def without(self, starts: Floats, ends: Floats) -> Self:
        """The time outside these intervals."""
        others = type(self).of(starts, ends, self.begin, self.end)
        moments = np.unique(np.concatenate([self.starts, self.ends, others.starts, others.ends]))
        middles = (moments[:-1] + moments[1:]) / 2
        kept = self.covers(middles) & ~others.covers(middles)
        return type(self).of(moments[:-1][kept], moments[1:][kept], self.begin, self.end)

    def overlap(self, starts: Floats, ends: Floats, shift: float = 0.0) -> Floats:
        """Length within each interval, with the intervals rotated by ``shift``."""
        if not shift:
            return self.before(ends) - self.before(starts)
        return self.rotated(ends - shift) - self.rotated(starts - shift)

    def rotated(self, moments: Floats) -> Floats:
        """Length before each moment, with the intervals repeated for ever."""
        rotations, rest = np.divmod(moments - self.begin, self.end - self.begin)
        return rotations * self.total + self.before(rest + self.begin)
