"""What each span's operations took: alone, and on the device."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.device_spans import DeviceSpans
from cotenant.query.derived.operation_times.catalogue import Catalogue
from cotenant.query.derived.operation_times.own_times import QUIET
from cotenant.query.derived.operation_times.sources import NUMBER, OWN, SOURCES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate for each span, and the interval that it is in."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of a tenant on a GPU: its spans' work and time on the device."""

    work: Estimated  # Alone.
    taken: Estimated  # As it ran, beside others.
    certain: Floats  # Time in which the device was at it for certain.
    known: Bools  # Whether the catalogue has a time for each operation.
    source: Ints  # Per kind.
    by_source: dict[str, float]  # Work by where its time is known from.
    lender: int  # The number of the tenant whose times most of its borrowed work has; -1: none.


def estimates(catalogue: Catalogue, number: int) -> Estimates:
    """Of one tenant on one GPU."""
    spans, known, mixes = catalogue.spans[number], catalogue.known[number], catalogue.mixes
    used, of_span = np.unique(spans.mix, return_inverse=True)
    place = mixes.place(used)
    entry, mix = mixes.entries(place[place >= 0])
    kind, count = np.searchsorted(known.kinds, mixes.kind[entry]), mixes.count[entry]

    def sums(times: Floats) -> Floats:
        found = np.full(len(used), np.nan)
        found[place >= 0] = np.bincount(mix, count * times[kind], int((place >= 0).sum()))
        each: Floats = found[of_span]
        return each

    times = known.times
    work = Estimated(sums(times.time), sums(times.low), sums(times.high))
    frequency = np.bincount(of_span, minlength=len(used))[place >= 0]
    spent = np.bincount(
        kind, count * frequency[mix] * np.nan_to_num(times.time[kind]), len(times.time)
    )
    by_source = np.bincount(known.source, spent, len(SOURCES))
    lent = np.where(known.source == NUMBER["borrowed"], spent, 0.0)
    lender = int(known.lender[lent.argmax()]) if lent.any() else -1
    alone = catalogue.company[spans.place].part(spans.start, spans.end)
    bounded, taken, certain = _bounded(spans, work, alone)
    return Estimates(
        work=bounded,
        taken=taken,
        certain=certain,
        known=~np.isnan(work.value),
        source=known.source,
        by_source=dict(zip(SOURCES, by_source.tolist(), strict=True)),
        lender=lender,
    )


def _bounded(
    spans: DeviceSpans, work: Estimated, company: Floats
) -> tuple[Estimated, Estimated, Floats]:
    """Within what the spans themselves prove."""
    length = (spans.end - spans.start).astype(np.float64)
    certain = (spans.certain_until - spans.certain_from).astype(np.float64)
    timed = spans.timed
    done = (spans.done - spans.start).astype(np.float64)
    most = np.maximum(np.where(timed, done, length), certain)
    # Beside others the device may have been at theirs for a part of the time.
    least = np.where(company <= QUIET, certain, 0.0)
    # Who slows it may have come after its thread was to be woken.
    longest = np.where(company <= QUIET, most, length)

    def within(values: Floats, low: Floats, other: Floats, high: Floats = most) -> Floats:
        filled = np.where(np.isnan(values), other, values)
        clipped: Floats = np.clip(filled, np.minimum(low, high), high)
        return clipped

    alone = Estimated(
        within(work.value, least, least), within(work.low, least, least),
        within(work.high, least, most),
    )  # fmt: skip
    taken = Estimated(
        within(work.value, certain, certain), within(work.low, certain, certain),
        within(work.high * (1 + company), certain, longest, longest),
    )  # fmt: skip
    return alone, taken, certain


def main_source(of: Estimates) -> str:
    """Where the times of most of its work are known from."""
    total = sum(of.by_source.values())
    own = sum(of.by_source[name] for name in OWN)
    if total <= 0:
        return "none"
    if own >= 0.7 * total:
        return max(OWN, key=lambda name: of.by_source[name])
    return "borrowed" if own + of.by_source["borrowed"] >= 0.7 * total else "prior"
