"""How much slower a tenant's spans are beside others, and its times without that.

A process runs at 1 / (1 + n * (burden - 1)) of its speed while n others have work. With a burden
of 2 all have equal parts of the GPU, as those have that take turns. The burden of a tenant is
in its own spans, if they have company for more and for less of their time. Of one that is
never without company, it is known from the others: where processes take turns, what they lose
is what it has.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.operation_times.own_times import KindTimes, TimedSpans, own_times

Floats = NDArray[np.float64]

_FEWEST: Final = 20  # Spans that say anything.
_LITTLE: Final = 0.02  # Of its time: less is not corrected.
_ALIKE: Final = 0.005  # So little do spans differ in what equal parts would leave them.
_LARGE: Final = 0.15  # Too large an error of what is lost, in such parts.
_BETTER: Final = 0.8
_EQUAL: Final = 2.0
_SOLID: Final = 0.5  # Of its spans, the part in which it waits.
_BURDENS: Final = 1 + np.concatenate([[0.0], np.geomspace(0.02, 20.0, 60)])
_NOISE: Final = 0.05  # By so much spans of the same operations differ without turns,
_WAKING_NS: Final = 30_000.0  # and by that.


@dataclass(frozen=True, slots=True)
class Slowing:
    """What the spans of a tenant say of it."""

    burden: float  # NaN: not known.
    equal_ns: float  # What it would lose if all had equal parts.
    lost_ns: float
    quiet: bool  # Its times are those of spans without company.
    spreads: Floats  # By how much its spans differ without what each burden would take.
    turns: bool  # They differ as turns make them, now long, now short.
    solid: bool  # It waits for its work: the device is at it while it has work.


def lost(crowd: Floats, burden: float) -> Floats:
    """The part of each span that is lost to others."""
    others = np.arange(1, len(crowd) + 1)
    parts: Floats = (1 - 1 / (1 + others * (burden - 1))) @ crowd
    return parts


def alone_times(timed: list[TimedSpans], times: list[KindTimes]) -> list[KindTimes]:
    """The times of the tenants of a GPU without what they lose to each other."""
    losses = [_loss(spans, own) for spans, own in zip(timed, times, strict=True)]
    shown = _shown(timed, losses)
    guess = _of_others(timed, losses)
    found = []
    for spans, own, loss in zip(timed, times, losses, strict=True):
        burden, known = _burden(loss, guess) if shown else (np.nan, False)
        # Processes of one tenant have equal parts, unless something shows more of it.
        unknown = np.isnan(burden)
        part = lost(spans.siblings, _EQUAL) if unknown else lost(spans.others, burden)
        little = not len(part) or float(np.median(part)) < _LITTLE
        found.append(own if loss.quiet or little else _without(spans, own, part, known=known))
    return found


def _shown(timed: list[TimedSpans], losses: list[Slowing]) -> bool:
    """Whether work in flight is on the device: who seldom waits may have none there for long."""
    queued = sum(spans.queued_ns for spans in timed)
    loose = (s.queued_ns for s, loss in zip(timed, losses, strict=True) if not loss.solid)
    return sum(loose) <= _LITTLE * queued


def _burden(loss: Slowing, guess: float) -> tuple[float, bool]:
    """Its burden, and whether its own spans say so: clearly better than what others say."""
    if np.isnan(loss.burden) or np.isnan(guess) or loss.quiet:
        return (loss.burden, True) if not np.isnan(loss.burden) else (guess, False)
    at_own, at_guess = np.interp([loss.burden, guess], _BURDENS, loss.spreads)
    better = bool(at_own < _BETTER * at_guess)
    return (loss.burden, True) if better else (guess, False)


def _of_others(timed: list[TimedSpans], losses: list[Slowing]) -> float:
    """The burden of those of which it is not known, by what the others lose."""
    best = [loss.quiet and loss.equal_ns > 0 for loss in losses]
    if not any(best):
        best = [not np.isnan(loss.burden) for loss in losses]
    known = [loss for loss, good in zip(losses, best, strict=True) if good]
    weight = sum(loss.equal_ns for loss in known)
    rest = [spans for spans, good in zip(timed, best, strict=True) if not good]
    if not weight or not rest:
        return float("nan")
    if not any(loss.turns for loss in losses):
        return sum(loss.burden * loss.equal_ns for loss in known) / weight
    # In turns, all together lose what they would if they had equal parts.
    left = sum(loss.equal_ns - loss.lost_ns for loss in known)
    took = [spans.equations.took_ns for spans in rest]
    equal = sum(float(ns @ lost(of.others, _EQUAL)) for ns, of in zip(took, rest, strict=True))
    burdens = [
        sum(float(ns @ lost(of.others, burden)) for ns, of in zip(took, rest, strict=True))
        for burden in _BURDENS
    ]
    return float(_BURDENS[np.abs(np.array(burdens) - left - equal).argmin()])


def _quiet(spans: TimedSpans) -> bool:
    return int(spans.alone.sum()) >= _FEWEST


def _loss(spans: TimedSpans, times: KindTimes) -> Slowing:
    took, beside, quiet = spans.equations.took_ns, ~spans.alone, _quiet(spans)
    if len(took) < _FEWEST or beside.sum() < _FEWEST:
        burden = 1.0 if quiet else np.nan
        return Slowing(burden, 0.0, 0.0, quiet, np.zeros(0), turns=False, solid=quiet)
    solid = float(np.median(spans.equations.weight)) >= _SOLID
    noise = _NOISE + _WAKING_NS / float(np.median(took))
    ratio = took / spans.equations.predicted(np.nan_to_num(times.time))
    equal = lost(spans.others, _EQUAL)
    parts = [lost(spans.others, burden) for burden in _BURDENS]
    losses = np.array([float(took @ part) for part in parts])
    logs = [np.log(ratio) + np.log1p(-part) for part in parts]
    scatter = np.array([_scatter(each, beside) for each in logs])
    if quiet:
        # Its times are known: whatever its spans took more.
        more = float((took - took / ratio)[beside].sum())
        best = int(np.abs(losses - more).argmin())
    else:
        best = int(scatter.argmin())
    error = 1.25 * scatter[best] / max(float(equal.std()), 1e-9) / np.sqrt(len(took))
    known = quiet or (equal.std() > _ALIKE and error < _LARGE)
    # Where most spans are alike, in step with the others, the few with less company say more.
    spreads = np.array([each.std() for each in logs])
    # Ranks wait for each other, too.
    turns = bool(scatter[best] > noise) and not spans.siblings.any()
    return Slowing(
        burden=float(_BURDENS[best]) if known else np.nan,
        equal_ns=float(took @ equal), lost_ns=float(losses[best]),
        quiet=quiet, spreads=spreads, turns=turns, solid=solid,
    )  # fmt: skip


def _scatter(logs: Floats, chosen: NDArray[np.bool_]) -> float:
    """By how much these differ from the usual."""
    return float(np.abs(logs[chosen] - np.median(logs[chosen])).mean())


def _without(spans: TimedSpans, times: KindTimes, part: Floats, *, known: bool) -> KindTimes:
    found = own_times(spans, len(times.time), part)
    if not known:
        # That others lose as much is a guess.
        found.high = np.fmax(found.high, times.high)
        found.low = np.fmin(found.low, found.low / 2)
    return found
