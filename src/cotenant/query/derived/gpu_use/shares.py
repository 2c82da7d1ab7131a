"""Each 100 ms of a GPU divided among its tenants in proportion to their work."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLOT_NS: Final = 100_000_000
_MOST_SLOTS: Final = 1 << 20  # Of a longer window they are longer.


@dataclass(frozen=True, slots=True)
class Slots:
    """The window of a GPU in slots."""

    begin: float
    end: float

    @property
    def width(self) -> float:
        """How long a slot is."""
        return max(float(SLOT_NS), (self.end - self.begin) / _MOST_SLOTS)

    @property
    def count(self) -> int:
        """How many there are."""
        return max(int(np.ceil((self.end - self.begin) / self.width)), 1)

    def lengths(self) -> Floats:
        """How long each is: the last may end before."""
        edges = np.minimum(self.begin + self.width * np.arange(self.count + 1), self.end)
        return np.diff(edges)

    def work(self, start: Floats, end: Floats, work: Floats) -> Floats:
        """Work in each slot, of spans whose work is even over their time."""
        count, rate = self.count, work / np.maximum(end - start, 1.0)
        first = (np.clip(start, self.begin, self.end) - self.begin) / self.width
        last = (np.clip(end, self.begin, self.end) - self.begin) / self.width
        a = np.minimum(first.astype(np.int64), count - 1)
        b = np.minimum(last.astype(np.int64), count - 1)
        # As if each span filled its first and its last slot and all in between, less the ends.
        steps = np.zeros(count + 1)
        np.add.at(steps, a, rate)
        np.add.at(steps, b + 1, -rate)
        filled = np.cumsum(steps[:-1])
        filled -= np.bincount(a, rate * (first - a), count)
        filled -= np.bincount(b, rate * (b + 1 - last), count)
        found: Floats = np.maximum(filled, 0.0) * self.width
        return found
