"""Times of operations from spans that contain them, by a quantile that contention hardly moves."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.solved_times.nnls import nnls

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PART: Final = 0.3  # A neighbour that slows less than 70 % of the spans does not move it.
_ROUNDS: Final = 25
_STEP: Final = 0.8
_LEAST_NS: Final = 1.0
_MOST_KINDS: Final = 80  # More are not solved together, but one after the other.
_SOLVED: Final = 15
_EXACT: Final = 1e-3  # No clock and no host is better than this.


@dataclass(frozen=True, slots=True)
class Equations:
    """Spans as sums of operations: an entry for each span and kind of operation in it."""

    span: Ints  # From 0, in order.
    kind: Ints
    count: Floats
    took_ns: Floats  # Of each span: what its operations took, or more.
    weight: Floats  # Of each span: the part of that time that is device time for certain.

    def predicted(self, times: Floats) -> Floats:
        """What the operations of each span take together."""
        sums = np.bincount(self.span, self.count * times[self.kind], len(self.took_ns))
        return np.maximum(sums, _LEAST_NS)

    def weights(self, times: Floats) -> Floats:
        """What each entry counts for its kind: its part of its span, as far as that is certain."""
        predicted = self.predicted(times)
        share = self.count * times[self.kind] / predicted[self.span]
        weights: Floats = share * self.weight[self.span]
        return weights


def quantiles(
    equations: Equations, ratio: Floats, weights: Floats, kinds: int, part: float
) -> Floats:
    """Per kind, the ratio that this part of the weights of its spans is up to; 1 without any."""
    span, kind = equations.span, equations.kind
    rank = np.empty(len(ratio), np.int64)
    rank[np.argsort(ratio, kind="stable")] = np.arange(len(ratio))
    order = np.argsort(kind * len(ratio) + rank[span])
    upto = np.concatenate([[0.0], np.cumsum(weights[order])])
    edges = np.searchsorted(kind[order], np.arange(kinds + 1))
    begins, ends = edges[:-1], edges[1:]
    wanted = upto[begins] + part * (upto[ends] - upto[begins])
    at = np.clip(np.searchsorted(upto, wanted) - 1, begins, np.maximum(ends - 1, begins))
    found = np.ones(kinds)
    there = upto[ends] > upto[begins]
    found[there] = ratio[span[order[at[there]]]]
    return found


def fitted(equations: Equations, kinds: int, part: float = PART) -> Floats:
    """The time of each kind; 0 where no span has it."""
    there = np.bincount(equations.kind, minlength=kinds) > 0
    number = np.bincount(equations.span, equations.count, len(equations.took_ns))
    mean = equations.took_ns / np.maximum(number, 1)
    # As if all operations of a span took the same time, to begin with.
    even = equations.weights(np.ones(kinds))
    times = np.where(there, np.maximum(quantiles(equations, mean, even, kinds, part), 1), 0)
    for _ in range(_ROUNDS):
        ratio = equations.took_ns / equations.predicted(times)
        factor = quantiles(equations, ratio, equations.weights(times), kinds, part)
        times = times * np.clip(factor, 1e-3, 1e3) ** _STEP
    return _solved(equations, times, there, part) if there.sum() <= _MOST_KINDS else times


def _solved(equations: Equations, times: Floats, there: NDArray[np.bool_], part: float) -> Floats:
    """The quantile regression that begins with these times."""
    column = np.cumsum(there) - 1
    matrix = np.zeros((len(equations.took_ns), int(there.sum())))
    np.add.at(matrix, (equations.span, column[equations.kind]), equations.count)
    x = times[there]
    for _ in range(_SOLVED):
        predicted = np.maximum(matrix @ x, _LEAST_NS)
        off = equations.took_ns / predicted - 1
        weight = np.where(off > 0, part, 1 - part) / np.maximum(np.abs(off), _EXACT)
        weight = weight * equations.weight / predicted**2
        gram, moment = (
            matrix.T @ (matrix * weight[:, None]),
            matrix.T @ (equations.took_ns * weight),
        )
        scale = 1 / np.sqrt(np.maximum(np.diag(gram), 1e-300))
        x = nnls(gram * np.outer(scale, scale), moment * scale, x / scale) * scale
    solved: Floats = times.copy()
    solved[there] = x
    return solved
