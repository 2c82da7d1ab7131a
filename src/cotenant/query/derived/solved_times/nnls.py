"""Non-negative least squares by Lawson and Hanson's active set."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def nnls(gram: Floats, moment: Floats) -> Floats:
    """The x >= 0 that minimises x'Gx/2 - m'x: Lawson and Hanson's active set."""
    size = len(moment)
    x = np.zeros(size)
    free = np.zeros(size, dtype=bool)
    tolerance = 1e-10 * max(float(np.abs(moment).max(initial=0.0)), 1e-300)
    for _ in range(3 * size + 10):
        gradient = moment - gram @ x
        gradient[free] = -np.inf
        entering = int(np.argmax(gradient))
        if gradient[entering] <= tolerance:
            break
        free[entering] = True
        for _ in range(size + 1):
            target = np.zeros(size)
            chosen = np.flatnonzero(free)
            target[chosen] = np.linalg.lstsq(
                gram[np.ix_(chosen, chosen)], moment[chosen], rcond=1e-12
            )[0]
            low = free & (target <= 0)
            if not low.any():
                x = target
                break
            steps = x[low] / np.maximum(x[low] - target[low], 1e-300)
            x = x + steps.min() * (target - x)
            free &= x > 1e-14 * max(x.max(), 1e-300)
            x[~free] = 0
    return x
