"""A non-negative fit that outliers do not bend, and which unknowns it determines."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.solved_times.nnls import nnls

Floats = NDArray[np.float64]

_NEGLIGIBLE: Final = 1e-9  # Of the largest eigenvalue: less is a direction without equations.
_BISQUARE: Final = 4.685  # 95 % as efficient as least squares where there are no outliers.
_LEAST: Final = 1e-3  # No clock and no host is better than this.
_ABSOLUTE: Final = 8  # Rounds that minimise absolute errors,
_ROUNDS: Final = 20  # of this many in all.


@dataclass(frozen=True, slots=True)
class Fit:
    """A solution, and how far the equations determine it."""

    solution: Floats
    rank: int
    condition: float  # Of the scaled equations, leaving out what they do not determine.
    freedom: int  # Degrees of freedom of the errors.
    _inverse: Floats  # Covariance of the solution.
    _undetermined: Floats  # Directions in which any step fits as well, in columns.

    def determines(self, terms: Floats) -> bool:
        """Whether the equations determine this sum of unknowns."""
        length = float(np.linalg.norm(terms))
        return bool(np.abs(terms @ self._undetermined).max(initial=0.0) < 1e-6 * length)

    def error_of(self, terms: Floats) -> float:
        """Standard error of a sum of unknowns."""
        variance = float(terms @ self._inverse @ terms)
        return math.sqrt(max(variance, 0.0))


def _scale(residuals: Floats) -> float:
    return 1.4826 * float(np.median(np.abs(residuals - np.median(residuals))))


@dataclass(frozen=True, slots=True)
class Prior:
    """What the first unknown is likely to be, whatever the equations say."""

    value: float
    spread: float

    def added(self, gram: Floats, moment: Floats, norm: float, noise: float) -> None:
        """Add it to the normal equations, as one equation more."""
        weight = (noise / (self.spread * norm)) ** 2
        gram[0, 0] += weight
        moment[0] += weight * self.value * norm


def robust_fit(
    matrix: Floats,
    values: Floats,
    prior: Prior | None = None,
    blocks: NDArray[np.int64] | None = None,
) -> Fit:
    """Solve ``matrix @ x = values`` for x >= 0, most equations being about right.

    The error of an equation is taken to grow with its value; an equation far off counts little.
    The first rounds minimise absolute errors, which wild equations cannot lead astray. Errors of
    equations in one block may depend on each other; without blocks each is one.
    """
    norms = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    scaled = matrix / norms
    middle = max(float(np.median(values)), 1.0)
    weights = np.full(len(values), 1.0 / middle**2)
    spread = 0.05
    start: Floats | None = None
    for turn in range(_ROUNDS):
        weighted = scaled * weights[:, None]
        gram, moment = scaled.T @ weighted, weighted.T @ values
        if prior is not None:
            prior.added(gram, moment, norms[0], spread)
        start = x = nnls(gram, moment, start)
        expected = np.maximum(scaled @ x, 0.1 * middle)
        residuals = (values - scaled @ x) / expected
        before, spread = spread, max(_scale(residuals), _LEAST)
        if turn < _ABSOLUTE:
            trust = spread / np.maximum(np.abs(residuals), 0.1 * spread)
        else:
            trust = np.clip(1 - (residuals / (_BISQUARE * spread)) ** 2, 0, None) ** 2
        weights = trust / expected**2
        if turn > _ABSOLUTE and abs(before - spread) <= 1e-4 * spread:
            break
    gram = scaled.T @ (scaled * weights[:, None])
    if prior is not None:
        prior.added(gram, np.zeros(len(x)), norms[0], spread)
    if blocks is None:
        blocks = np.arange(len(values))
    scores = _scores(scaled * (weights * residuals * expected)[:, None], blocks)
    # An equation far off bends the solution less than its weight says.
    u2 = np.minimum((residuals / (_BISQUARE * spread)) ** 2, 1)
    bend = float(np.mean((1 - u2) * (1 - 5 * u2)) / max(float(np.mean((1 - u2) ** 2)), 1e-9))
    return _judged(gram, x, norms, scores / max(bend, 0.3))


def _scores(each: Floats, blocks: NDArray[np.int64]) -> Floats:
    """The pull of each block of equations on the solution, in rows."""
    _, block = np.unique(blocks, return_inverse=True)
    count = int(block.max()) + 1
    scores = np.zeros((count, each.shape[1]))
    np.add.at(scores, block, each)
    return scores * math.sqrt(count / max(count - 1, 1))


def _judged(gram: Floats, x: Floats, norms: Floats, scores: Floats) -> Fit:
    # Scaled again, so that a rare kernel does not look like an undetermined one.
    diagonal = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    vectors_values = np.linalg.eigh(gram / np.outer(diagonal, diagonal))
    eigenvalues, vectors = vectors_values.eigenvalues, vectors_values.eigenvectors
    determined = eigenvalues > _NEGLIGIBLE * eigenvalues[-1]
    # Of what no equation has, nothing is determined.
    back = (1 / np.maximum(diagonal * norms, 1e-100))[:, None] * vectors
    inverse = (back[:, determined] / eigenvalues[determined]) @ back[:, determined].T
    pull = scores * norms @ inverse
    undetermined = back[:, ~determined]
    undetermined = undetermined / np.maximum(np.linalg.norm(undetermined, axis=0), 1e-300)
    return Fit(
        solution=x / norms,
        rank=int(determined.sum()),
        condition=float(np.sqrt(eigenvalues[-1] / eigenvalues[determined][0])),
        freedom=max(len(scores) - 1, 1),
        _inverse=pull.T @ pull,
        _undetermined=undetermined,
    )
