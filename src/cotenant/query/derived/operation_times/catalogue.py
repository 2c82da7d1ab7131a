"""The catalogue: per tenant and GPU, what each kind of operation takes alone.

A time is known from the tenant's own waits, a profiler's file or its own CUDA events, else from
other tenants of the host, else from what the host's operations are like.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.device_spans import Company, DeviceSpans
from cotenant.query.derived.operation_times import mixes as mixes_module
from cotenant.query.derived.operation_times.losses import alone_times
from cotenant.query.derived.operation_times.mixes import MixTable
from cotenant.query.derived.operation_times.own_times import (
    FLOOR,
    KindTimes,
    TimedSpans,
    own_times,
)
from cotenant.query.derived.operation_times.sources import (
    BORROWED,
    EVENTS,
    IMPORTED,
    NONE,
    NUMBER,
    PRIOR,
    WAITS,
)
from cotenant.query.derived.registry import Ask

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Triple = tuple[Floats, Floats, Floats]  # Times, and between which they are.

_FEW_AT_ONCE: Final = 10.0  # Operations that a wait lasts for.
_NEAR: Final = 3.0
TRANSFER: Final = 3.0  # The same kernel and size may take so much more or less in another tenant.
_OWN_TRANSFER: Final = 1.5  # And in the same tenant on another GPU.
_CERTAIN: Final = 0.5  # Of a span, at least, where its time is lent.
_FEWEST: Final = 3
_PRIOR_FACTORS: Final = (5.0, 100.0)
_COPY_NS: Final = 1_500.0
_BYTES_A_NS: Final = {"[memcpy": 12.0, "[memset": 200.0}
_COPY_FACTOR: Final = 4.0
# A collective waits for its peers; a graph's number means another graph in another process.
_UNLENT: Final = ("nccl", "[graph", "ncclDevKernel")

_TIMED: Final = """
select
    c.tenant,
    e.node,
    e.gpu,
    e.pid,
    e.kernel_name,
    coalesce(case
        when e.op = 'launch' then
            try(e.grid_x::bigint * e.grid_y * e.grid_z * e.block_x * e.block_y * e.block_z)
        else e.bytes
    end, 0)                                         as size,
    count(*)                                        as samples,
    quantile_cont(e.gpu_ns, [0.1, 0.3, 0.6])        as gpu_ns
from cuda_events e
join containers c using (cgroup_id)
where e.gpu_ns is not null and e.gpu_ns_source = 'elapsed' and coalesce(e.result, 0) = 0
group by all
order by all
"""
# Measured before the window or after it, they are evidence still: the last are the nearest.
_IMPORTED: Final = """
select
    c.tenant,
    t.node,
    t.gpu,
    t.kernel_name,
    t.size,
    t.samples,
    [t.low_ns, t.time_ns, t.high_ns]                as gpu_ns,
    greatest(b.from_ns - t.timestamp_ns, t.timestamp_ns - b.to_ns, 0) as age_ns
from imported_times t
join containers c using (cgroup_id)
cross join whole.bounds b
order by age_ns desc, t.samples, t.timestamp_ns, t.time_ns
"""
HALF_LIFE_NS: Final = 600e9  # Clocks and temperatures change: what was measured then says less.
_GPU_OF: Final = """
select node, pid, min(gpu) as gpu
from spans_in_flight
group by node, pid
having count(distinct gpu) = 1
"""


@dataclass(slots=True)
class Known:
    """The times of a tenant on a GPU, with the source of each."""

    kinds: Ints  # That its spans have, in order; the rest is of each.
    times: KindTimes
    source: Ints  # Numbers of SOURCES.
    lender: Ints  # Whose number the tenant has that lent it; -1 if none did.


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The times of every tenant on every GPU."""

    mixes: MixTable
    spans: list[DeviceSpans]
    company: dict[tuple[str, str | None], Company]
    known: list[Known]  # In the order of the spans.


def catalogue(ask: Ask, spans: list[DeviceSpans]) -> Catalogue:
    """Learn it from these spans."""
    mixes = MixTable.of(ask(mixes_module.SQL))
    places: dict[tuple[str, str | None], list[DeviceSpans]] = {}
    for each in spans:
        places.setdefault(each.place, []).append(each)
    company = {place: Company.of(tenants) for place, tenants in places.items()}
    kinds = [mixes.kinds_of(each.mix) for each in spans]
    timed = [
        TimedSpans.of(each, mixes, company[each.place], own)
        for each, own in zip(spans, kinds, strict=True)
    ]
    known = [_own(each, own) for each, own in zip(timed, kinds, strict=True)]
    for place in places:
        here = [number for number, each in enumerate(spans) if each.place == place]
        times = [known[number].times for number in here]
        for number, alone in zip(here, alone_times([timed[n] for n in here], times), strict=True):
            known[number].times = alone
    _add_events(ask, spans, mixes, known)
    for node in {each.node for each in spans}:
        here = [number for number, each in enumerate(spans) if each.node == node]
        _lend(spans, mixes, known, here)
    return Catalogue(mixes, spans, company, known)


def _own(timed: TimedSpans, kinds: Ints) -> Known:
    times = own_times(timed, len(kinds))
    source = np.where(np.isnan(times.time), NUMBER[NONE], NUMBER[WAITS])
    return Known(kinds, times, source, np.full(len(source), -1))


def _sure(known: Known) -> NDArray[np.bool_]:
    """Which times are good enough to lend."""
    waits = (known.source == NUMBER[WAITS]) & (known.times.certain >= _CERTAIN)
    measured = np.isin(known.source, (NUMBER[EVENTS], NUMBER[IMPORTED]))
    sure: NDArray[np.bool_] = (waits | measured) & (known.times.spans >= _FEWEST)
    return sure


def _add_events(ask: Ask, spans: list[DeviceSpans], mixes: MixTable, known: list[Known]) -> None:
    rows = ask(_TIMED).to_pylist() + ask(_IMPORTED).to_pylist()
    if not rows:
        return
    gpus = {(row["node"], row["pid"]): row["gpu"] for row in ask(_GPU_OF).to_pylist()}
    places = {(each.tenant, each.node, each.gpu): n for n, each in enumerate(spans)}
    kinds = {key: n for n, key in enumerate(zip(mixes.names, mixes.sizes.tolist(), strict=True))}
    for row in rows:
        gpu = row["gpu"] or gpus.get((row["node"], row.get("pid")))
        place = places.get((row["tenant"], row["node"], gpu))
        kind = kinds.get((row["kernel_name"], row["size"]))
        if place is not None and kind is not None:
            at = int(np.searchsorted(known[place].kinds, kind))
            if at < len(known[place].kinds) and known[place].kinds[at] == kind:
                _add_event(known[place], at, row)


def _add_event(known: Known, kind: int, row: dict[str, Any]) -> None:
    waits = known.source[kind] == NUMBER[WAITS] and known.times.certain[kind] >= _CERTAIN
    low, time, high = row["gpu_ns"]
    imported = "age_ns" in row
    weight = 0.5 ** (row.get("age_ns", 0) / HALF_LIFE_NS)
    wide = (1 + FLOOR) * _OWN_TRANSFER ** (1 - weight)
    low, high = low / wide, high * wide
    if row["samples"] < _FEWEST:
        return
    if waits and known.times.spans[kind] >= _FEWEST:
        # What a profiler measured is exact, but beside others it took longer than alone.
        narrower = high * known.times.low[kind] < low * known.times.high[kind]
        if not (imported and narrower and time <= known.times.high[kind]):
            return
    known.source[kind] = NUMBER[IMPORTED if imported else EVENTS]
    known.times.time[kind], known.times.spans[kind] = time, row["samples"]
    known.times.low[kind], known.times.high[kind] = low, high
    known.times.certain[kind] = 1.0


@dataclass(frozen=True, slots=True)
class Lent:
    """Per kind of operation, what the tenants of a host know of it."""

    lenders: Ints
    log: Floats  # The sum of the logarithms of their times,
    least: Floats  # and the smallest and the largest of these.
    most: Floats
    first: Ints  # The number of the tenant that knows most.

    @classmethod
    def of(cls, known: list[Known], here: list[int], kinds: int) -> "Lent":
        """Of the tenants with these numbers."""
        lenders, first, samples = (np.full(kinds, value) for value in (0, -1, -1))
        log, least, most = np.zeros(kinds), np.full(kinds, np.inf), np.full(kinds, -np.inf)
        for number in here:
            one = known[number]
            sure = _sure(one) & (one.times.time > 0)
            kind, spans = one.kinds[sure], one.times.spans[sure]
            times = np.log(one.times.time[sure])
            lenders[kind] += 1
            log[kind] += times
            least[kind] = np.minimum(least[kind], times)
            most[kind] = np.maximum(most[kind], times)
            better = spans > samples[kind]
            samples[kind[better]], first[kind[better]] = spans[better], number
        return cls(lenders, log, least, most, first)


def _lend(spans: list[DeviceSpans], mixes: MixTable, known: list[Known], here: list[int]) -> None:
    """Fill in what a tenant does not know itself from the others of its host."""
    lent = Lent.of(known, here, len(mixes.names))
    there = lent.lenders > 0
    usual = np.where(there, np.exp(lent.log / np.maximum(lent.lenders, 1)), np.nan)
    may = there & ~np.array([name.startswith(_UNLENT) for name in mixes.names], bool)
    priors = _priors(mixes, usual)
    tenants, tenant = np.unique([spans[n].tenant for n in here], return_inverse=True)
    code = np.full(len(spans) + 1, len(tenants))  # The last is of no lender.
    code[here] = tenant
    for number in here:
        one = known[number]
        kinds, sure = one.kinds, _sure(one) & (one.times.time > 0)
        lender = lent.first[kinds]
        factor = np.where(code[lender] == code[number], _OWN_TRANSFER, TRANSFER)
        bounds = np.exp(lent.least[kinds]) / factor, np.exp(lent.most[kinds]) * factor
        wanted = may[kinds] & ~sure
        _take(one, wanted, (usual[kinds], *bounds), BORROWED)
        one.lender[wanted] = lender[wanted]
        # Even one span says more than a guess, if the thread waited for most of it.
        guessed = ~sure & ~wanted & ~(one.times.certain >= _CERTAIN)
        prior = priors[0][kinds], priors[1][kinds], priors[2][kinds]
        _take(one, guessed, _near_waits(prior, one.times.waited_ns), PRIOR)


def _near_waits(prior: Triple, waited_ns: Floats) -> Triple:
    """A guess for operations of a tenant that seldom waits: a wait is as long as the last few."""
    time, low, high = prior
    longest = np.fmax(waited_ns, 1.0)
    near = np.clip(time, longest / _FEW_AT_ONCE, longest)
    known = ~np.isnan(waited_ns) & (waited_ns > 0)
    return (
        np.where(known, near, time),
        np.where(known, np.minimum(low, near / _NEAR), low),
        np.where(known, np.minimum(np.maximum(high, near * _NEAR), longest * _NEAR), high),
    )


def _take(one: Known, wanted: NDArray[np.bool_], given: Triple, source: str) -> None:
    """Take the given times, within what the tenant's own spans leave possible."""
    times = one.times
    loose = wanted & (one.source == NUMBER[WAITS])
    new = wanted & ~loose & ~np.isnan(given[0])
    for values, from_others in zip((times.time, times.low, times.high), given, strict=True):
        within = np.clip(from_others, times.low, times.high)
        values[loose] = np.where(np.isnan(within), values, within)[loose]
        values[new] = from_others[new]
    few = loose & (times.certain < _CERTAIN) & ~np.isnan(given[0])
    one.source[new | few] = NUMBER[source]


def _priors(mixes: MixTable, lent: Floats) -> Triple:
    """What operations that no tenant's waits timed are likely to take."""
    time, factor = np.full(len(lent), np.nan), np.ones(len(lent))
    kernel = np.array([not name.startswith(tuple(_BYTES_A_NS)) for name in mixes.names], bool)
    logs = np.log(lent[kernel & ~np.isnan(lent)])
    if not len(logs):
        return time, time, time
    time[kernel] = np.exp(logs.mean())
    factor[kernel] = np.clip(np.exp(2 * logs.std()), *_PRIOR_FACTORS)
    for name, speed in _BYTES_A_NS.items():
        copies = np.array([kind.startswith(name) for kind in mixes.names], bool)
        time[copies] = _COPY_NS + mixes.sizes[copies] / speed
        factor[copies] = _COPY_FACTOR
    return time, time / factor, time * factor
