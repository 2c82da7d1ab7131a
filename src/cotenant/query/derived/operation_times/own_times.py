"""A tenant's own operation times on a GPU, from its spans whose end on the device is known."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.device_spans import Company, DeviceSpans
from cotenant.query.derived.operation_times.mixes import MixTable
from cotenant.query.derived.operation_times.quantile_fit import (
    PART,
    Equations,
    fitted,
    quantiles,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUIET: Final = 0.02  # A span may have company for so much of its time, and was alone.
MOST_SPANS: Final = 1_500  # More do not improve the fit.
_MOST_ENTRIES: Final = 1 << 20  # Tenants choose how many kinds of operations a span has.
_FEWEST_QUIET: Final = 20
_ENOUGH: Final = 5  # Spans of a kind.
_MIDDLE: Final = 0.5
_MOST_WAITS: Final = 0.9
FLOOR: Final = 0.02  # No interval is narrower.
_FEW: Final = 1.3  # Few spans may all be slowed: by so much, as a logarithm, over their number.
_FEW_QUIET: Final = 0.3
_BETWEEN: Final = (0.1, 0.6)  # Quantiles around the fit that an interval reaches to.
_BETWEEN_QUIET: Final = (0.3, 0.7)


@dataclass(slots=True)
class KindTimes:
    """The time of each kind of operation, its interval, and what it was learned from."""

    time: Floats
    low: Floats
    high: Floats
    spans: Ints
    certain: Floats  # Part of the spans' time in which the device was at it for certain.
    waited_ns: Floats  # For how long most waits for it lasted, at most.

    @classmethod
    def none(cls, kinds: int) -> "KindTimes":
        """Of no operation."""
        nan = np.full(kinds, np.nan)
        none = np.zeros(kinds)
        return cls(nan, nan.copy(), nan.copy(), np.zeros(kinds, np.int64), none, nan.copy())


@dataclass(frozen=True, slots=True)
class TimedSpans:
    """Some of a tenant's spans whose end on the device is known, and what was in them."""

    equations: Equations
    alone: NDArray[np.bool_]
    others: Floats  # The parts of each in which so many other processes had work: one, two, ...
    siblings: Floats  # And other processes of the tenant.
    queued_ns: float  # All spans of the tenant, also those that are not of these.

    @classmethod
    def of(cls, spans: DeviceSpans, mixes: MixTable, company: Company, kinds: Ints) -> "TimedSpans":
        """Of the spans of this tenant."""
        chosen = np.flatnonzero(spans.timed)
        place = mixes.place(spans.mix[chosen])
        chosen, place = chosen[place >= 0], place[place >= 0]
        if len(chosen) > MOST_SPANS:
            dice = np.random.default_rng(0)
            drawn = np.sort(dice.choice(len(chosen), MOST_SPANS, replace=False))
            chosen, place = chosen[drawn], place[drawn]
        few = np.cumsum(mixes.first[place + 1] - mixes.first[place]) <= _MOST_ENTRIES
        chosen, place = chosen[few], place[few]
        start, done = spans.start[chosen], spans.done[chosen]
        took = (done - start).astype(np.float64)
        certain = np.clip((done - spans.waited_from[chosen]) / np.maximum(took, 1), 1e-6, 1.0)
        entry, span = mixes.entries(place)
        kind = np.searchsorted(kinds, mixes.kind[entry])
        return cls(
            Equations(span, kind, mixes.count[entry], took, certain),
            company.part(start, done) <= QUIET,
            company.crowd(start, done),
            Company.of([spans]).crowd(start, done),
            float((spans.end - spans.start).sum()),
        )


def own_times(timed: TimedSpans, kinds: int, lost: Floats | None = None) -> KindTimes:
    """What a tenant's spans say of each kind that they have, without the part that was lost."""
    if not len(timed.alone):
        return KindTimes.none(kinds)
    if lost is None:
        return _times(timed.equations, timed.alone, kinds)
    equations = replace(timed.equations, took_ns=timed.equations.took_ns * (1 - lost))
    return _times(equations, timed.alone, kinds, _MIDDLE)


def _times(
    equations: Equations, alone: NDArray[np.bool_], kinds: int, part: float = PART
) -> KindTimes:
    own, kind = np.unique(equations.kind, return_inverse=True)
    local = Equations(equations.span, kind, equations.count, equations.took_ns, equations.weight)
    found = _fit(local, len(own), part, _BETWEEN if part == PART else _BETWEEN_QUIET, _FEW)
    waits = local.took_ns * local.weight
    found.waited_ns = quantiles(local, waits, np.ones(len(local.span)), len(own), _MOST_WAITS)
    if alone.sum() >= _FEWEST_QUIET:
        quiet = _fit(_only(local, alone), len(own), _MIDDLE, _BETWEEN_QUIET, _FEW_QUIET)
        better = quiet.spans >= _ENOUGH
        for name in ("time", "low", "high", "spans", "certain"):
            getattr(found, name)[better] = getattr(quiet, name)[better]
    times = KindTimes.none(kinds)
    for name in ("time", "low", "high", "spans", "certain", "waited_ns"):
        getattr(times, name)[own] = getattr(found, name)
    return times


def _only(equations: Equations, chosen: NDArray[np.bool_]) -> Equations:
    number = np.cumsum(chosen) - 1
    kept = chosen[equations.span]
    return Equations(
        number[equations.span[kept]], equations.kind[kept], equations.count[kept],
        equations.took_ns[chosen], equations.weight[chosen],
    )  # fmt: skip


def _fit(
    equations: Equations, kinds: int, part: float, between: tuple[float, float], few: float
) -> KindTimes:
    time = fitted(equations, kinds, part)
    ratio = equations.took_ns / equations.predicted(time)
    weights = equations.weights(time)
    low, high = (quantiles(equations, ratio, weights, kinds, p) for p in between)
    certain = quantiles(equations, equations.weight, weights, kinds, _MIDDLE)
    # Where the thread launched for most of the span, the device may have been idle in between.
    number = np.bincount(equations.kind, minlength=kinds)
    slowed = np.exp(-few / np.maximum(number, 1))
    loose = np.where(certain < _MIDDLE, np.sqrt(np.maximum(certain, 1e-6)), 1.0)
    return KindTimes(
        time=time * loose,
        low=time * np.minimum(low, 1 - FLOOR) * np.minimum(certain, loose) * slowed,
        high=time * np.maximum(high, 1 + FLOOR),
        spans=number,
        certain=certain,
        waited_ns=np.zeros(kinds),
    )
