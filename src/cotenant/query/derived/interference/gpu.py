"""What the store knows of one GPU: its tenants, their spans, and when each had work queued."""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.queued_places import NUMBERED, QueuedPlace, places_of
from cotenant.query.derived.registry import Ask

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
    queued: Intervals


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    node: str
    gpu: str
    origin: int
    begin: float
    end: float
    tenants: tuple[Tenant, ...]
    bounds: tuple[float, float]  # Of the session's window.

    def within(self, queued: Intervals) -> Intervals:
        """Time queued as far as it is in the session's window."""
        begin, end = np.clip(self.bounds, self.begin, self.end)
        return Intervals.of(queued.starts, queued.ends, float(begin), float(end))

    def moment(self, relative: float) -> int:
        """A relative time in UTC."""
        return self.origin + int(relative)

    def queued_besides(self, *tenants: Tenant) -> Intervals:
        """When any other tenant had work here."""
        others = [t.queued for t in self.tenants if t not in tenants]
        none = np.zeros(0)
        starts = np.concatenate([none, *(t.starts for t in others)])
        ends = np.concatenate([none, *(t.ends for t in others)])
        return Intervals.of(starts, ends, self.begin, self.end)


def gpus_of(ask: Ask) -> list[Gpu]:
    """Every GPU with spans; those of which the GPU is not known may be of different ones."""
    places: dict[tuple[str, str], list[QueuedPlace]] = {}
    for place in places_of(ask):
        if place.gpu is not None and len(place.starts):
            places.setdefault((place.node, place.gpu), []).append(place)
    if not places:
        return []
    rows = ask(_SPANS)
    (bounds,) = ask("select from_ns, to_ns from whole.bounds").to_pylist()
    window = bounds["from_ns"], bounds["to_ns"]
    return [_gpu(node, gpu, there, rows, window) for (node, gpu), there in places.items()]


def _gpu(node: str, gpu: str, places: list[QueuedPlace], rows: Any, window: tuple[int, int]) -> Gpu:
    origin = min(int(place.starts[0]) for place in places)
    end = float(max(int(place.ends[-1]) for place in places) - origin)
    numbers = rows["number"].to_numpy()
    tenants = []
    for place in places:
        first, last = np.searchsorted(numbers, [place.number, place.number + 1])
        spans = Spans.of(rows.slice(int(first), int(last - first)), origin)
        starts, ends = (times.astype(np.float64) for times in place.since(origin))
        queued = Intervals.of(starts, ends, 0.0, end)
        tenants.append(Tenant(place.tenant, spans, queued))
    bounds = float(window[0] - origin), float(window[1] - origin)
    return Gpu(node, gpu, origin, 0.0, end, tuple(tenants), bounds)
