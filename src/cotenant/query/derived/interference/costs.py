"""What each aggressor cost a victim: the victim's loss at each moment, divided among them.

While several have work beside it, a victim takes as long as all their effects together make it:
one that doubles its time and another that doubles it make it three times. So the loss of a moment
is one number, and the parts of the aggressors sum to it.
"""

from collections.abc import Sequence

import numpy as np

from cotenant.query.derived.intervals import Intervals


def costs(victim: Intervals, others: Sequence[tuple[Intervals, float]]) -> list[float]:
    """How much of the victim's time queued it lost to each of the others, by their slowdowns."""
    harm = np.array([slowdown - 1 for _, slowdown in others])
    edges = [victim.starts, victim.ends]
    for other, _ in others:
        edges += [other.starts, other.ends]
    moments = np.unique(np.concatenate(edges))
    if len(moments) < 2 or not len(victim.starts):
        return [0.0] * len(others)
    middles = (moments[:-1] + moments[1:]) / 2
    length = np.diff(moments) * victim.covers(middles)
    beside = np.stack([other.covers(middles).astype(np.float64) for other, _ in others])
    more = harm @ beside
    lost = length * more / (1 + more)
    part = np.divide(harm[:, None] * beside, more, where=more > 0, out=np.zeros(beside.shape))
    return [float(each) for each in part @ lost]
