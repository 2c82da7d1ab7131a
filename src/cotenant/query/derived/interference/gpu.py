"""What the store knows of one GPU: its tenants, their spans, and when each was busy."""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.busy_intervals import BusyIntervals
from cotenant.query.derived.interference.slowdown import FEWEST, SHARED, Samples
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.derived.solved_times.equations import equations, items_of
from cotenant.query.derived.solved_times.robust_fit import robust_fit
from cotenant.query.derived.solved_times.table import FEWEST_SPANS, MOST_SPANS, OVERHEAD
from cotenant.query.text.sql import quoted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SPANS: Final = """
select coalesce(gpu, '') as place, node, tenant, gpu, start_ns, end_ns,
       proven and waited and streams = 1 as usable, copied_bytes, collectives, signature,
       coalesce(mix, 0) as mix
from spans
where end_ns > start_ns
order by node, place, tenant, start_ns
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
    return [_gpu(node, rows) for (node, _), rows in groups_of(ask(_SPANS), "node", "place")]


def _gpu(node: str, rows: Any) -> Gpu:
    starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    origin = int(starts.min())
    end = float(ends.max() - origin)
    tenants = []
    for (name,), own in groups_of(rows, "tenant"):
        spans = Spans.of(own, origin)
        tenants.append(Tenant(name, spans, BusyIntervals.of(spans.start, spans.end, 0.0, end)))
    return Gpu(node, rows["gpu"][0].as_py(), origin, 0.0, end, tuple(tenants))


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
    rows = ask(
        f"""select mix as span, 0 as span_ns, 0 as start_ns, kernel_name,
                   coalesce(size, 0) as size, sum(count)::bigint as launches
              from span_mixes
             where mix in (select mix from spans where tenant = {quoted(victim.name)}
                              and node = {quoted(gpu.node)})
             group by all order by span"""
    )
    if not rows.num_rows:
        return None
    mixes = np.unique(rows["span"].to_numpy())
    place = np.minimum(np.searchsorted(mixes, spans.mix), len(mixes) - 1)
    known = mixes[place] == spans.mix
    matrix, _ = equations(items_of(rows))
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
