"""What the store knows of one GPU: its tenants, their spans, and when each was busy."""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.busy_intervals import BusyIntervals
from cotenant.query.derived.busy_places import NUMBERED, BusyPlace, places_of
from cotenant.query.derived.interference.slowdown import FEWEST, SHARED, Samples
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.solved_times.equations import MixEntries, equations
from cotenant.query.derived.solved_times.robust_fit import robust_fit
from cotenant.query.derived.solved_times.table import FEWEST_SPANS, MOST_SPANS, OVERHEAD
from cotenant.query.text.sql import quoted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_LOOKED_AT: Final = 100_000  # Spans of a tenant on a GPU; of more, so many are drawn.
_SPANS: Final = f"""
with counted as (
    select p.number, {MOST_LOOKED_AT} / count(*) as part
    from {NUMBERED}
    where s.end_ns > s.start_ns
    group by p.number
)
select p.number::smallint as number, s.start_ns, s.end_ns,
       s.proven and s.waited and s.streams = 1 as usable, s.copied_bytes, s.collectives,
       s.signature, coalesce(s.mix, 0) as mix
from {NUMBERED}
join counted c on c.number = p.number
where s.end_ns > s.start_ns
  and (c.part >= 1 or hash(s.pid, s.stream, s.start_ns) <= c.part * 18446744073709551615)
order by p.number, s.start_ns
"""
_MIXES: Final = """
select mix, kernel_name, coalesce(size, 0) as size, count as launches
from span_mixes
where mix in (select mix from spans where tenant = {tenant} and node = {node})
order by mix, kernel_name, size, launches
"""


@dataclass(frozen=True, slots=True)
class Spans:
    """A tenant's spans; times are relative to the GPU's first moment."""

    start: Floats
    end: Floats
    signature: Ints
    mix: Ints
    usable: NDArray[np.bool_]  # Its end is known exactly.
    copied_bytes: Floats
    collectives: Floats

    @classmethod
    def of(cls, rows: Any, origin: int) -> Self:
        """From rows of the query."""
        column = {name: rows[name].to_numpy() for name in rows.column_names}
        return cls(
            start=(column["start_ns"] - origin).astype(np.float64),
            end=(column["end_ns"] - origin).astype(np.float64),
            signature=column["signature"].astype(np.int64),
            mix=column["mix"].astype(np.int64),
            usable=column["usable"].astype(bool),
            copied_bytes=column["copied_bytes"].astype(np.float64),
            collectives=column["collectives"].astype(np.float64),
        )

    def only(self, chosen: NDArray[np.bool_]) -> "Spans":
        """Some of them."""
        return Spans(*(getattr(self, field.name)[chosen] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant on the GPU."""

    name: str
    spans: Spans
    busy: BusyIntervals


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or a host whose GPUs cannot be told apart."""

    node: str
    gpu: str | None
    origin: int
    begin: float
    end: float
    tenants: tuple[Tenant, ...]

    def moment(self, relative: float) -> int:
        """A relative time in UTC."""
        return self.origin + int(relative)

    def busy_besides(self, *tenants: Tenant) -> BusyIntervals:
        """When any other tenant had work here."""
        others = [t.busy for t in self.tenants if t not in tenants]
        none = np.zeros(0)
        starts = np.concatenate([none, *(t.starts for t in others)])
        ends = np.concatenate([none, *(t.ends for t in others)])
        return BusyIntervals.of(starts, ends, self.begin, self.end)


def gpus_of(ask: Ask) -> list[Gpu]:
    """Every GPU with spans."""
    places: dict[tuple[str, str | None], list[BusyPlace]] = {}
    for place in places_of(ask):
        if len(place.starts):
            places.setdefault((place.node, place.gpu), []).append(place)
    rows = ask(_SPANS) if places else None
    return [_gpu(node, gpu, there, rows) for (node, gpu), there in places.items()]


def _gpu(node: str, gpu: str | None, places: list[BusyPlace], rows: Any) -> Gpu:
    origin = min(int(place.starts[0]) for place in places)
    end = float(max(int(place.ends[-1]) for place in places) - origin)
    numbers = rows["number"].to_numpy()
    tenants = []
    for place in places:
        first, last = np.searchsorted(numbers, [place.number, place.number + 1])
        spans = Spans.of(rows.slice(int(first), int(last - first)), origin)
        starts, ends = (times.astype(np.float64) for times in place.since(origin))
        busy = BusyIntervals.of(starts, ends, 0.0, end)
        tenants.append(Tenant(place.tenant, spans, busy))
    return Gpu(node, gpu, origin, 0.0, end, tuple(tenants))


def samples_of(ask: Ask, gpu: Gpu, victim: Tenant, spans: Spans, part: Floats) -> Samples:
    """Spans of the same kind; or, where few repeat, held against what they should take."""
    whole = Samples(spans.start, spans.end, spans.end - spans.start, spans.signature)
    shared = part >= SHARED
    if not shared.any() or _repeated(whole, part, shared) >= 0.5:
        return whole
    expected = _expected(ask, gpu, victim, spans, part)
    if expected is None:
        return whole
    known = expected > 0
    cost = whole.cost / np.where(known, expected, 1)
    kind = np.zeros(len(cost), dtype=np.int64)
    return Samples(whole.start, whole.end, cost, kind).only(known)


def _repeated(samples: Samples, part: Floats, shared: NDArray[np.bool_]) -> float:
    """The part of the shared time in kinds that occur often enough, alone and shared."""
    _, kind = np.unique(samples.kind, return_inverse=True)
    often = np.bincount(kind[shared], minlength=kind.max() + 1) >= FEWEST
    often &= np.bincount(kind[part <= 0], minlength=kind.max() + 1) >= FEWEST
    return float(samples.cost[shared & often[kind]].sum() / samples.cost[shared].sum())


def _expected(ask: Ask, gpu: Gpu, victim: Tenant, spans: Spans, part: Floats) -> Floats | None:
    """What each span should take alone, by device times solved from those that were alone."""
    sql = _MIXES.format(tenant=quoted(victim.name), node=quoted(gpu.node))
    mixes = MixEntries.of(ask(sql))
    if not len(mixes.mix):
        return None
    place, known = mixes.place(spans.mix)
    matrix, _ = equations(mixes.all_items())
    alone = _some(np.flatnonzero(known & (part <= 0)), MOST_SPANS)
    if len(alone) < max(FEWEST_SPANS, 3 * matrix.shape[1]):
        return None
    # Of a kernel that never ran alone nothing is known, nor of a mix that has it.
    solo = (matrix[place[alone]] > 0).any(axis=0)
    known &= (matrix[:, ~solo] == 0).all(axis=1)[place]
    length = spans.end - spans.start
    fit = robust_fit(matrix[place[alone]][:, solo], length[alone], OVERHEAD)
    return np.where(known, (matrix[:, solo] @ fit.solution)[place], 0.0)


def _some(places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of them, evenly."""
    step = -(-len(places) // most) or 1
    return places[::step]
