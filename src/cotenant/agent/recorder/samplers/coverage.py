"""Time that intervals cover, as far as it may still grow."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]

_MOST: Final = 1 << 16
_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Disjoint intervals in order."""

    starts: Times = field(default_factory=lambda: _NONE)
    ends: Times = field(default_factory=lambda: _NONE)

    def with_more(self, starts: Times, ends: Times) -> "Coverage":
        """With these intervals, too; joined where they touch."""
        starts, ends = np.concatenate([self.starts, starts]), np.concatenate([self.ends, ends])
        order = np.argsort(starts, kind="stable")
        starts, reached = starts[order], np.maximum.accumulate(ends[order])
        opens = np.ones(len(starts), bool)
        opens[1:] = starts[1:] > reached[:-1]
        return Coverage(starts[opens], reached[np.append(opens[1:], True)]).bounded()

    def bounded(self) -> "Coverage":
        """Of too many intervals, those joined that are nearest to each other."""
        if len(self.starts) <= _MOST:
            return self
        gaps = self.starts[1:] - self.ends[:-1]
        apart = gaps > np.partition(gaps, len(gaps) - _MOST // 2)[len(gaps) - _MOST // 2]
        return Coverage(self.starts[np.insert(apart, 0, True)], self.ends[np.append(apart, True)])

    def since(self, moment: int) -> "Coverage":
        """Without what ended before."""
        later = int(np.searchsorted(self.ends, moment, side="right"))
        return Coverage(self.starts[later:], self.ends[later:]) if later else self

    def until(self, moments: Times) -> Times:
        """Time covered before each moment."""
        if not len(self.starts):
            return np.zeros(len(moments), np.int64)
        before = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
        place = np.searchsorted(self.starts, moments, side="right")
        last = np.maximum(place - 1, 0)
        inside = np.minimum(moments, self.ends[last]) - self.starts[last]
        return np.where(place > 0, before[last] + np.maximum(inside, 0), 0).astype(np.int64)

    def shared(self, other: "Coverage") -> "Coverage":
        """What both cover."""
        points = np.unique(np.concatenate([self.starts, self.ends, other.starts, other.ends]))
        if len(points) < 2:
            return Coverage()
        lengths = np.diff(points)
        both = (np.diff(self.until(points)) == lengths) & (np.diff(other.until(points)) == lengths)
        return Coverage(points[:-1][both], points[1:][both])


def covered_twice(all_of_them: list[Coverage]) -> Coverage:
    """Where at least two of them are."""
    starts = np.concatenate([_NONE, *(one.starts for one in all_of_them)])
    ends = np.concatenate([_NONE, *(one.ends for one in all_of_them)])
    points = np.unique(np.concatenate([starts, ends]))
    depth = np.searchsorted(np.sort(starts), points, side="right")
    depth = depth - np.searchsorted(np.sort(ends), points, side="right")
    twice = depth[:-1] >= 2
    return Coverage(points[:-1][twice], points[1:][twice])
