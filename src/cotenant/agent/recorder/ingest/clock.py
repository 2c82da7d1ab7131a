"""The kernel's monotonic clock and UTC."""

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_STEP_NS: Final = 1_000_000_000  # Smaller changes are a clock that is being slewed.
_PART_BITS: Final = 28  # A part of the kernel's time is about a quarter of a second.
_PARTS_KEPT: Final = 1 << 16  # Nearly five hours.
_PARTS_AT_ONCE: Final = 64


def wall_offset_ns() -> int:
    """UTC minus the monotonic clock: the tightest of a few readings."""
    best = None
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) // 2)
    assert best is not None
    return best[1]


class WallClock:
    """Converts the kernel's clock to UTC; the same moment always to the same time.

    The offset between the two drifts. So each quarter of a second of the kernel's time keeps the
    offset that it was first converted with: what is learned of an operation later joins its row.
    """

    def __init__(self, read: Callable[[], int] = wall_offset_ns) -> None:
        self._read = read
        self.offset_ns = 0  # As sampled last.
        self._kept: dict[int, int] = {}

    def sample(self) -> int:
        """Read the offset again; by how much the clock was set since, 0 if it was not."""
        before, self.offset_ns = self.offset_ns, self._read()
        step = self.offset_ns - before
        return step if before and abs(step) > _STEP_NS else 0

    def utc(self, times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Nanoseconds since 1970."""
        signed: npt.NDArray[np.int64] = times.astype(np.int64)
        if not len(signed):
            return signed
        first, last = int(signed.min()) >> _PART_BITS, int(signed.max()) >> _PART_BITS
        places = signed >> _PART_BITS
        if last - first < _PARTS_AT_ONCE:
            parts: Any = range(first, last + 1)
            places -= first
        else:
            parts, places = np.unique(places, return_inverse=True)
        offsets = np.array([self._offset(int(part)) for part in parts], np.int64)
        signed += offsets[0] if (offsets == offsets[0]).all() else offsets[places]
        return signed

    def _offset(self, part: int) -> int:
        kept = self._kept.get(part)
        if kept is None:
            kept = self._kept[part] = self.offset_ns
            while len(self._kept) > _PARTS_KEPT:
                del self._kept[next(iter(self._kept))]
        return kept
