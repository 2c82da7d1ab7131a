"""Non-negative least squares by Lawson and Hanson's active set."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nnls(gram: Floats, moment: Floats, start: Floats | None = None) -> Floats:
    """The x >= 0 that minimises x'Gx/2 - m'x.

    From wherever it starts, it takes about as many solutions as unknowns have to become zero, or
    cease to be: the solution of a problem much like this one is a good start.
    """
    size = len(moment)
    everything = np.ones(size, dtype=bool)
    x = np.clip(_solved(gram, moment, everything), 0, None) if start is None else start
    x, free = _settled(gram, moment, x, x > 0)
    tolerance = 1e-10 * max(float(np.abs(moment).max(initial=0.0)), 1e-300)
    for _ in range(3 * size + 10):
        gradient = moment - gram @ x
        gradient[free] = -np.inf
        entering = int(np.argmax(gradient))
        if gradient[entering] <= tolerance:
            break
        free[entering] = True
        x, free = _settled(gram, moment, x, free)
    return x


def _settled(
    gram: Floats, moment: Floats, x: Floats, free: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.bool_]]:
    """The best that these unknowns can do without those that would become negative."""
    for _ in range(len(x) + 1):
        target = _solved(gram, moment, free)
        low = free & (target <= 0)
        if not low.any():
            return target, free
        steps = x[low] / np.maximum(x[low] - target[low], 1e-300)
        x = x + steps.min() * (target - x)
        free = free & (x > 1e-14 * max(x.max(), 1e-300))
        x[~free] = 0
    return x, free


def _solved(gram: Floats, moment: Floats, free: NDArray[np.bool_]) -> Floats:
    """Without bounds, all other unknowns being zero."""
    found = np.zeros(len(moment))
    chosen = np.flatnonzero(free)
    found[chosen] = np.linalg.lstsq(gram[np.ix_(chosen, chosen)], moment[chosen], rcond=1e-12)[0]
    return found
