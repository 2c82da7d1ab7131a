"""What the store knows of one GPU: its tenants, their spans, and when each was busy."""

from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.busy_intervals import BusyIntervals
from cotenant.query.derived.interference.slowdown import FEWEST, SHARED, Samples
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.derived.solved_times.equations import Items, equations, items_of
from cotenant.query.derived.solved_times.robust_fit import robust_fit
from cotenant.query.derived.solved_times.table import FEWEST_SPANS, OVERHEAD
from cotenant.query.text.sql import quoted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SPANS: Final = """
select coalesce(gpu, '') as place, node, tenant, gpu, start_ns, end_ns,
       proven and waited and streams = 1 as usable, copied_bytes, collectives, signature,
       coalesce((span >> 1)::bigint, 0) as key
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
    key: Ints
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
            key=column["key"].astype(np.int64),
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
        f"""select (w.span >> 1)::bigint as span, 0 as span_ns, 0 as start_ns,
                   w.kernel_name, coalesce(w.size, 0) as size, sum(w.weight)::bigint as launches
              from gpu_work w
             where w.tenant = {quoted(victim.name)} and w.node = {quoted(gpu.node)}
               and w.span is not null
             group by all order by span"""
    )
    order = np.argsort(spans.key)
    place = np.searchsorted(spans.key, rows["span"].to_numpy(), sorter=order)
    index = order[np.minimum(place, len(order) - 1)]
    known = spans.key[index] == rows["span"].to_numpy()
    items = items_of(rows.filter(known))
    own = np.zeros(len(items.span_ns), dtype=np.int64)
    own[items.span] = index[known]
    length = spans.end - spans.start
    alone = part[own] <= 0
    return _predicted(items, own, length, alone, len(length))


def _predicted(
    items: Items, own: Ints, length: Floats, alone: NDArray[np.bool_], count: int
) -> Floats | None:
    matrix, _ = equations(items)
    if alone.sum() < max(FEWEST_SPANS, 3 * matrix.shape[1]):
        return None
    fit = robust_fit(matrix[alone], length[own][alone], OVERHEAD)
    expected = np.zeros(count)
    expected[own] = matrix @ fit.solution
    return expected
