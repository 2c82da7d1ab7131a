"""Whether the spans that were solved are of one sort: else one time per kernel is not the truth.

With ``d`` how far each span is from what its operations should take, as a logarithm:

    quiet                  one narrow heap, and a few spans that the host ended late
    slowed now and then    two heaps
    other clocks           a heap that moves with time
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCKS: Final = 20  # Of time.
_FAR: Final = 4.5  # Spreads, from which a span is none of the heap.
_LATE: Final = 0.15  # More spans above the heap are another heap.
_EARLY: Final = 0.03  # Nothing ends before it is done: shorter spans are the undisturbed ones.
_MOVES: Final = 0.03  # Standard deviation over time.
_FEWEST: Final = 5  # Spans of a block.


@dataclass(frozen=True, slots=True)
class Heap:
    """Where most spans lie, and how widely."""

    middle: float
    spread: float

    @classmethod
    def of(cls, values: Floats) -> "Heap":
        """The shortest half of the values is around the middle of the heap."""
        ordered = np.sort(values)
        half = len(ordered) // 2
        widths = ordered[half:] - ordered[: len(ordered) - half]
        at = int(np.argmin(widths))
        return cls(float(ordered[at] + widths[at] / 2), float(widths[at]) / 1.349 + 1e-4)


def distance(values: Floats, expected: Floats) -> Floats:
    """How far each span is from what its operations should take, as a logarithm."""
    far: Floats = np.log(np.maximum(values, 1) / np.maximum(expected, 1))
    return far


def blocks_of(start: Floats) -> Ints:
    """The block of time of each span: equally many spans in each."""
    place = np.argsort(np.argsort(start, kind="stable"), kind="stable")
    count = min(BLOCKS, max(len(start) // _FEWEST, 1))
    return (place * count // max(len(start), 1)).astype(np.int64)


def _moved(off: Floats, blocks: Ints, spread: float) -> float:
    """By how much the middle moves from block to block, beyond chance."""
    middles, sizes = [], []
    for block in np.unique(blocks):
        mine = off[blocks == block]
        middles.append(float(np.median(mine)))
        sizes.append(len(mine))
    chance = 1.2533**2 * spread**2 * float(np.mean([1 / size for size in sizes]))
    return math.sqrt(max(float(np.var(middles)) - chance, 0.0))


def why_not_one(values: Floats, expected: Floats, overhead: float, blocks: Ints) -> str | None:
    """Why these spans are not of one sort; None if they are.

    ``overhead`` is what each span has once. Some have none of it: they are not early for that.
    """
    off = distance(values, expected)
    heap = Heap.of(off)
    far = _FAR * heap.spread + 0.01
    late = float(np.mean(off > heap.middle + far))
    early = float(np.mean(distance(values + overhead, expected) < heap.middle - far))
    if early > _EARLY:
        return f"{early:.0%} of its spans are shorter than the rest: something slows the others"
    if late > _LATE:
        return f"{late:.0%} of its spans are longer than the rest: something slows them"
    moved = _moved(off, blocks, heap.spread)
    if moved > _MOVES:
        return f"its spans change by {moved:.0%} over time: other clocks, or other work"
    return None
