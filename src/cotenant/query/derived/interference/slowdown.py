"""How much slower one tenant's work was while another had work queued: arrays in, a verdict out.

A sample is one piece of the victim's work: an interval, its cost, and its kind. With ``f`` the
part of it in which the other had work queued and ``d0`` what its kind costs alone,

    cost = d0 / (1 - f + f / slowdown)

so each sample gives ``1 - 1/slowdown = (1 - d0 / cost) / f``; the more of it was shared, the more
it counts. Medians, so that a late wake-up of the host here and there changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.student import NORMAL_975, student_975

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED: Final = 0.25  # A sample counts as shared from this part on.
FEWEST: Final = 30  # Samples alone, and shared, without which nothing is said.
BLOCKS: Final = 20
BLOCK_NS: Final = 10e9
NEAR_NS: Final = 600e9  # The cost alone is taken from samples within ten minutes.
SHIFTS: Final = 250  # By which the other's timeline is rotated at first,
MOST_SHIFTS: Final = 8_000  # and at most; fewer where few pairs are looked at.
_AS_MUCH: Final = 12  # Shifts that explain as much, after which no more are tried.
RESAMPLES: Final = 240
MOST_SAMPLES: Final = 1_000  # Of a kind, alone and shared each.
_NULL_SAMPLES: Final = 600
MOST_KINDS: Final = 12
LEVEL: Final = 0.05
MAYBE_LEVEL: Final = 0.1
WORTH_A_WORD: Final = 1.01  # Less is not worth an hour of anybody's, however sure it is.

# How sure a slowdown is, in the words that tables, the page and `top` share.
EVIDENCE: Final = "evidence"
MAYBE: Final = "maybe"
NONE: Final = "none"

_MOST_GAIN: Final = 0.999
_MOST_IDLE: Final = 0.5  # Of a cost: the host takes no more.
_OF_SKEW: Final = 2.4  # The median of a delay that is distributed exponentially, by its skew.


@dataclass(frozen=True, slots=True)
class Samples:
    """Pieces of the victim's work."""

    start: Floats
    end: Floats
    cost: Floats
    kind: Ints
    idle: Floats | None = None  # Of each cost, what the host may take besides; None: nothing.

    def __len__(self) -> int:
        return len(self.start)

    def only(self, chosen: NDArray[np.bool_] | Ints) -> "Samples":
        """Some of them."""
        idle = None if self.idle is None else self.idle[chosen]
        return Samples(
            self.start[chosen], self.end[chosen], self.cost[chosen], self.kind[chosen], idle
        )


@dataclass(frozen=True, slots=True)
class Stratum:
    """Samples of one kind within a time: alone, and shared."""

    alone: Ints
    shared: Ints
    weight: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the samples say; without numbers where there are too few."""

    slowdown: float
    low: float
    high: float
    p: float
    slope: float
    alone: int
    shared: int

    @property
    def enough(self) -> bool:
        """Whether there were samples enough to say anything."""
        return bool(np.isfinite(self.slowdown))

    @property
    def evidence(self) -> bool:
        """Whether the other slows the victim: by every test, if no other pair is looked at."""
        return self.word() == EVIDENCE

    def word(self, level: float = LEVEL) -> str:
        """How sure the slowdown is: evidence, maybe or none; ``level`` is the largest p."""
        if not self.enough or self.slowdown < WORTH_A_WORD or self.slope <= 0:
            return NONE
        if self.low > 1 and self.p <= level:
            return EVIDENCE
        return MAYBE if self.p <= MAYBE_LEVEL else NONE


def level_of(verdicts: Iterable[Verdict]) -> float:
    """The largest p that is evidence where so many pairs are looked at (Benjamini, Hochberg).

    Where no tenant slows any other, there is evidence of any at all in one answer out of twenty.
    """
    p = np.sort([v.p for v in verdicts if v.enough])
    held = np.flatnonzero(p <= LEVEL * np.arange(1, len(p) + 1) / max(len(p), 1))
    return float(p[held[-1]]) if len(held) else LEVEL / max(len(p), 1)


def _few(alone: int, shared: int) -> Verdict:
    nan = float("nan")
    return Verdict(nan, nan, nan, nan, nan, alone, shared)


def _strata(samples: Samples, part: Floats, fewest: int = FEWEST) -> list[Stratum]:
    """Kinds and times with enough samples alone and shared, the heaviest first."""
    kinds, kind = np.unique(samples.kind, return_inverse=True)
    period = ((samples.start - samples.start.min()) // NEAR_NS).astype(np.int64)
    alone, shared = part <= 0, part >= SHARED
    found = []
    for k in range(len(kinds)):
        mine = kind == k
        if (mine & shared).sum() < fewest or (mine & alone).sum() < fewest:
            continue
        for t in np.unique(period[mine & shared]):
            near = mine & alone & (np.abs(period - t) <= 1)
            now = mine & shared & (period == t)
            if near.sum() >= fewest and now.sum() >= min(fewest, 5):
                weight = float(samples.cost[now].sum())
                found.append(Stratum(np.flatnonzero(near), np.flatnonzero(now), weight))
    found.sort(key=lambda stratum: -stratum.weight)
    return found[:MOST_KINDS]


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _gain(samples: Samples, part: Floats, strata: list[Stratum]) -> float:
    """Log of the slowdown, over all strata by their weight."""
    total = sum(stratum.weight for stratum in strata)
    log = 0.0
    for stratum in strata:
        alone = float(np.median(samples.cost[stratum.alone]))
        share = part[stratum.shared]
        gains = (1 - alone / samples.cost[stratum.shared]) / share
        gain = min(_median(gains, share**2), _MOST_GAIN)
        log += stratum.weight / total * -np.log1p(-gain)
    return float(log)


def _without_host(samples: Samples, part: Floats, strata: list[Stratum]) -> float:
    """The same if all that the host may take is no work: then each sample was slowed by more."""
    assert samples.idle is not None
    cost = samples.cost.copy()
    for stratum in strata:
        low, middle, high = np.quantile(samples.cost[stratum.alone], (0.25, 0.5, 0.75))
        # A host is late, never early: of times that vary by chance, as much is longer as shorter.
        late = _OF_SKEW * max(high + low - 2 * middle, 0.0)
        for own in (stratum.alone, stratum.shared):
            idle = np.minimum(samples.idle[own] + late, _MOST_IDLE * samples.cost[own])
            cost[own] = samples.cost[own] - idle
    return _gain(Samples(samples.start, samples.end, cost, samples.kind), part, strata)


def _slope(samples: Samples, part: Floats, strata: list[Stratum]) -> float:
    """By how much the log of the cost rises from nothing shared to all of it."""
    logs, parts = [], []
    for stratum in strata:
        both = np.concatenate([stratum.alone, stratum.shared])
        alone = float(np.median(samples.cost[stratum.alone]))
        log = np.log(np.maximum(samples.cost[both], 1e-9) / alone)
        middle = np.median(log)
        spread = 1.4826 * float(np.median(np.abs(log - middle))) + 1e-9
        logs.append(np.clip(log, middle - 5 * spread, middle + 5 * spread))
        parts.append(part[both])
    log, share = np.concatenate(logs), np.concatenate(parts)
    share = share - share.mean()
    return float(share @ log / max(float(share @ share), 1e-12))


def _weighted_medians(values: Floats, weights: Floats) -> Floats:
    """The weighted median of each row; values may be one row for all."""
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    if values.ndim == 1:
        weights = weights[:, order]
        ordered = np.broadcast_to(ordered, weights.shape)
    else:
        weights = np.take_along_axis(weights, order, axis=-1)
    total = np.cumsum(weights, axis=1)
    at = (total < total[:, -1:] / 2).sum(axis=1)
    medians = ordered[np.arange(len(total)), np.minimum(at, total.shape[1] - 1)]
    return np.where(total[:, -1] > 0, medians, np.nan)


def _resampled(
    samples: Samples, part: Floats, strata: list[Stratum], rng: np.random.Generator
) -> Floats:
    """Logs of the slowdown with whole blocks of time drawn at random, with repetition."""
    begin, end = samples.start.min(), samples.end.max()
    block_ns = min(BLOCK_NS, (end - begin) / BLOCKS) or 1.0
    block = ((samples.start - begin) / block_ns).astype(np.int64)
    blocks = int(block.max()) + 1
    # Each with the one after it: what drifts slowly ties neighbouring blocks together.
    pairs = max(blocks // 2, 1)
    drawn = rng.multinomial(pairs, np.full(blocks, 1 / blocks), size=RESAMPLES)
    counts = (drawn + np.roll(drawn, 1, axis=1)).astype(np.float64)
    logs = np.zeros(RESAMPLES)
    total = np.zeros(RESAMPLES)
    for stratum in strata:
        alone = _weighted_medians(samples.cost[stratum.alone], counts[:, block[stratum.alone]])
        share, cost = part[stratum.shared], samples.cost[stratum.shared]
        weights = counts[:, block[stratum.shared]]
        gains = (1 - alone[:, None] / cost) / share
        gain = np.minimum(_weighted_medians(gains, weights * share**2), _MOST_GAIN)
        weight = weights @ cost
        known = np.isfinite(gain)
        logs += np.where(known, weight * -np.log1p(-np.where(known, gain, 0)), 0)
        total += np.where(known, weight, 0)
    # Few blocks vary less among themselves than the time they were drawn from.
    widen = student_975(pairs - 1) / NORMAL_975 * np.sqrt(pairs / max(pairs - 1, 1))
    found: Floats = logs[total > 0] / total[total > 0]
    middle = float(np.median(found)) if len(found) else 0.0
    widened: Floats = middle + (found - middle) * widen
    return widened


def _thinned(stratum: Stratum, rng: np.random.Generator) -> Stratum:
    def some(chosen: Ints) -> Ints:
        if len(chosen) <= MOST_SAMPLES:
            return chosen
        return np.sort(rng.choice(chosen, MOST_SAMPLES, replace=False))

    return Stratum(some(stratum.alone), some(stratum.shared), stratum.weight)


def _evenly(samples: Samples) -> Floats:
    """Logs of the cost against the usual of its kind within its time; wild ones clipped."""
    log = np.log(np.maximum(samples.cost, 1e-9))
    period = ((samples.start - samples.start.min()) // NEAR_NS).astype(np.int64)
    _, group = np.unique(np.column_stack([samples.kind, period]), axis=0, return_inverse=True)
    group = group.ravel()
    for g in range(int(group.max()) + 1):
        mine = group == g
        log[mine] -= np.median(log[mine])
        spread = 1.4826 * float(np.median(np.abs(log[mine]))) + 1e-6
        log[mine] = np.clip(log[mine], -4 * spread, 4 * spread)
        log[mine] -= log[mine].mean()
    return log


def _fit(samples: Samples, other: Intervals, shifts: Floats, log: Floats) -> Floats:
    """How well the cost follows the part that is shared, for each shift of the other's timeline."""
    begin, end = samples.start - shifts[:, None], samples.end - shifts[:, None]
    part = np.clip(other.rotated(end) - other.rotated(begin), 0, None)
    part /= samples.end - samples.start
    part -= part.mean(axis=1, keepdims=True)
    length = np.sqrt(np.einsum("ij,ij->i", part, part))
    found: Floats = part @ log / np.maximum(length, 1e-9)
    return found


def _p_value(samples: Samples, other: Intervals, pairs: int, rng: np.random.Generator) -> float:
    """How often the other's intervals, rotated by chance, explain as much or more."""
    most = min(max(4 * pairs / LEVEL, 4 * SHIFTS), MOST_SHIFTS)
    log = _evenly(samples)
    observed = float(_fit(samples, other, np.zeros(1), log)[0])
    as_much = tried = 0
    while tried < most and as_much < _AS_MUCH:
        shifts = rng.uniform(0, other.end - other.begin, SHIFTS)
        as_much += int((_fit(samples, other, shifts, log) >= observed - 1e-12).sum())
        tried += SHIFTS
    return (1 + as_much) / (1 + tried)


def slowdown(
    samples: Samples,
    other: Intervals,
    *,
    pairs: int = 1,
    seed: int = 0,
    other_idle: float = 0.0,
) -> Verdict:
    """How the victim's samples fare beside the other's work; of so many pairs that are asked.

    ``other_idle`` is the part of the other's time queued that may be its host's, not the device's.
    """
    samples = samples.only(samples.end > samples.start)
    if not len(samples):
        return _few(0, 0)
    part = other.overlap(samples.start, samples.end) / (samples.end - samples.start)
    part = np.where(part > 1e-9, np.minimum(part, 1), 0)
    rng = np.random.default_rng(seed)
    strata = [_thinned(stratum, rng) for stratum in _strata(samples, part)]
    if not strata:
        return _few(int((part <= 0).sum()), int((part >= SHARED).sum()))
    log = _gain(samples, part, strata)
    drawn = _resampled(samples, part, strata, rng)
    low, high = np.quantile(drawn, (0.025, 0.975)) if len(drawn) else (np.nan, np.nan)
    if samples.idle is not None:
        # The truth is between all of the cost and none of it being the host's.
        more = max(_without_host(samples, part * (1 - other_idle), strata) - log, 0.0)
        log, high = log + more / 2, high + more
    used = np.unique(np.concatenate([np.concatenate([s.alone, s.shared]) for s in strata]))
    kinds = np.unique(samples.kind[used])
    null = samples.only(np.isin(samples.kind, kinds))
    if len(null) > _NULL_SAMPLES:
        null = null.only(np.sort(rng.choice(len(null), _NULL_SAMPLES, replace=False)))
    return Verdict(
        slowdown=float(np.exp(log)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        p=_p_value(null, other, pairs, rng),
        slope=_slope(samples, part, strata),
        alone=int(sum(len(s.alone) for s in strata)),
        shared=int(sum(len(s.shared) for s in strata)),
    )
