"""Spans that reach into the window as arrays, by tenant and GPU: GPU time and work are of them."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.intervals import joined
from cotenant.query.derived.queued_places import PLACES
from cotenant.query.derived.registry import Ask

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# From the end of device work until a thread that slept runs again: a timer's slack, an interrupt.
MOST_WAKING_NS: Final = 55_000
_SPANS: Final = f"""
with waking as (
    -- No wait is shorter than what it takes to be woken.
    select
        node,
        least(quantile_cont(done_ns - proof_ns, 0.01), {MOST_WAKING_NS})::bigint as waking_ns
    from spans_in_flight
    where done_ns < end_ns and done_ns > proof_ns
    group by node
)
select p.number::smallint as number, s.start_ns, s.end_ns, coalesce(s.mix, 0) as mix,
       coalesce(s.certain_from_ns, s.end_ns) as certain_from_ns,
       coalesce(s.certain_until_ns, s.end_ns) as certain_until_ns,
       greatest(
           s.done_ns - if(s.done_ns < s.end_ns, coalesce(w.waking_ns, 0), 0), s.start_ns + 1
       ) as done_ns,
       greatest(s.proof_ns, s.start_ns) as waited_from_ns,
       s.streams = 1 and s.done_ns > s.start_ns as timed
from spans_in_flight s
join ({PLACES}) p
  on p.node = s.node and p.tenant = s.tenant and p.gpu is not distinct from s.gpu
left join waking w on w.node = s.node
where s.end_ns > s.start_ns and by_spans(s.node, s.within_from_ns)
"""
# Of very many spans, those that begin in some seconds: hash is the same for all tenants of a GPU.
_SECOND: Final = "hash(s.start_ns // 1000000000)"
_COUNT: Final = """
select case when few_spans() then 0 else (select count(*) from spans_in_flight) end as spans
"""
MOST_SPANS: Final = 400_000

_AS_NAMED: Final = ("timed", "mix")
_COLUMNS: Final = ("end", "certain_from", "certain_until", "done", "waited_from", *_AS_NAMED)


@dataclass(frozen=True, slots=True)
class DeviceSpans:
    """The spans of a tenant on a GPU, in order of their beginning."""

    number: int
    node: str
    gpu: str | None
    tenant: str
    start: Ints
    end: Ints  # By which the device was done.
    certain_from: Ints  # The device was at work for the tenant from here
    certain_until: Ints  # to here; nowhere for certain where both are the same.
    done: Ints  # When the device was done, where the span is ``timed``.
    waited_from: Ints  # When the call began that waited for it.
    timed: Bools
    mix: Ints
    part: int = 1  # It is one of so many parts of all of them.

    @property
    def place(self) -> tuple[str, str | None]:
        """The GPU, or those of its node that are not known."""
        return self.node, self.gpu


def device_spans(ask: Ask) -> list[DeviceSpans]:
    """Every tenant on every GPU, in order of node, GPU and tenant; a part of very many spans."""
    names: list[dict[str, Any]] = ask(f"{PLACES} order by number").to_pylist()
    if not names:
        return []
    part = max(-(-ask(_COUNT).to_pylist()[0]["spans"] // MOST_SPANS), 1)
    rows = ask(_SPANS if part == 1 else f"{_SPANS} and {_SECOND} % {part} = 0")
    number, start = rows["number"].to_numpy(), rows["start_ns"].to_numpy()
    order = np.argsort(start, kind="stable")
    order = order[np.argsort(number[order], kind="stable")]
    edges = np.searchsorted(number[order], np.arange(len(names) + 1))
    sorted_rows = {"start": start[order]}
    for name in _COLUMNS:
        column = rows[name if name in _AS_NAMED else f"{name}_ns"].combine_chunks()
        values = column.fill_null(False if name == "timed" else 0).to_numpy(zero_copy_only=False)
        sorted_rows[name] = values[order]
    return [
        DeviceSpans(**name, **{key: values[a:b] for key, values in sorted_rows.items()}, part=part)
        for name, a, b in zip(names, edges, edges[1:], strict=False)
    ]


@dataclass(frozen=True, slots=True)
class Company:
    """For how long two tenants or more had work on a GPU, up to any moment."""

    moments: Ints
    until: Floats

    @classmethod
    def of(cls, tenants: list[DeviceSpans]) -> "Company":
        """Of all tenants of a GPU."""
        islands = [joined(t.start, t.end) for t in tenants if len(t.start)]
        if len(islands) < 2:
            return cls(np.zeros(1, np.int64), np.zeros(1))
        starts = np.sort(np.concatenate([s for s, _ in islands]), kind="stable")
        ends = np.sort(np.concatenate([e for _, e in islands]), kind="stable")
        moments = np.concatenate([starts, ends])
        order = np.argsort(moments, kind="stable")
        change = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])[order]
        moments = moments[order]
        several = np.cumsum(change)[:-1] >= 2
        lengths = np.where(several, np.diff(moments), 0)
        return cls(moments, np.concatenate([[0.0], np.cumsum(lengths, dtype=np.float64)]))

    def part(self, start: Ints, end: Ints) -> Floats:
        """The part of each of a tenant's spans in which another tenant had work, too."""
        origin = int(self.moments[0])
        moments = (self.moments - origin).astype(np.float64)
        until = np.interp(np.stack([start - origin, end - origin]), moments, self.until)
        part: Floats = (until[1] - until[0]) / np.maximum(end - start, 1)
        return part
