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
_SHORT_COPY: Final = 0.25  # Bytes a nanosecond of the span that it is at the end of.
_SPANS: Final = f"""
with waking as (
    -- No wait is shorter than what it takes to be woken.
    select
        node,
        least(quantile_cont(done_ns - proof_ns, 0.01), {MOST_WAKING_NS})::bigint as waking_ns
    from spans_in_flight
    where done_ns < end_ns and done_ns > proof_ns
    group by node
),
-- A blocking copy on the default stream waited for the one other stream.
copies as (
    select node, pid, proof_ns, sum(copied_bytes) as bytes
    from spans_in_flight
    where streams = 2 and closed_by = 'copy' and launches = 0
    group by all
)
select p.number::smallint as number, s.pid, s.start_ns, s.end_ns, coalesce(s.mix, 0) as mix,
       coalesce(s.certain_from_ns, s.end_ns) as certain_from_ns,
       coalesce(s.certain_until_ns, s.end_ns) as certain_until_ns,
       greatest(
           s.done_ns - if(s.done_ns < s.end_ns, coalesce(w.waking_ns, 0), 0), s.start_ns + 1
       ) as done_ns,
       greatest(s.proof_ns, s.start_ns) as waited_from_ns,
       s.done_ns > s.start_ns and (
           s.streams = 1
           or coalesce(s.launches > 0 and c.bytes < (s.done_ns - s.start_ns) * {_SHORT_COPY}, false)
       ) as timed
from spans_in_flight s
join ({PLACES}) p
  on p.node = s.node and p.tenant = s.tenant and p.gpu is not distinct from s.gpu
left join waking w on w.node = s.node
left join copies c
  on s.streams = 2 and s.closed_by = 'copy'
 and c.node = s.node and c.pid = s.pid and c.proof_ns = s.proof_ns
where s.end_ns > s.start_ns and by_spans(s.node, s.within_from_ns)
"""
# Of very many spans, those that begin in some seconds: hash is the same for all tenants of a GPU.
_SECOND: Final = "hash(s.start_ns // 1000000000)"
_COUNT: Final = """
select case when few_spans() then 0 else (select count(*) from spans_in_flight) end as spans
"""
MOST_SPANS: Final = 400_000

_AS_NAMED: Final = ("timed", "mix", "pid")
_COLUMNS: Final = ("end", "certain_from", "certain_until", "done", "waited_from", *_AS_NAMED)


MOST_AT_ONCE: Final = 12  # Processes with work on a GPU: more are like so many.


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
    pid: Ints
    part: int = 1  # It is one of so many parts of all of them.

    @property
    def place(self) -> tuple[str, str | None]:
        """The GPU, or those of its node that are not known."""
        return self.node, self.gpu

    def processes(self) -> list[Bools]:
        """Which spans each process has."""
        return [self.pid == pid for pid in np.unique(self.pid)]


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
    """For how long two processes or more had work on a GPU, up to any moment."""

    moments: Ints
    until: Floats
    crowds: list[Floats]  # For how long one had work, for how long two, ...

    @classmethod
    def of(cls, tenants: list[DeviceSpans]) -> "Company":
        """Of all processes of some tenants of a GPU."""
        processes = [(t.start[own], t.end[own]) for t in tenants for own in t.processes()]
        islands = [joined(*each) for each in processes]
        if len(islands) < 2:
            return cls(np.zeros(1, np.int64), np.zeros(1), [])
        starts = np.sort(np.concatenate([s for s, _ in islands]), kind="stable")
        ends = np.sort(np.concatenate([e for _, e in islands]), kind="stable")
        moments = np.concatenate([starts, ends])
        order = np.argsort(moments, kind="stable")
        change = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])[order]
        moments = moments[order]
        there = np.minimum(np.cumsum(change)[:-1], MOST_AT_ONCE)
        lengths = np.diff(moments)

        def upto(chosen: Bools) -> Floats:
            return np.concatenate([[0.0], np.cumsum(np.where(chosen, lengths, 0.0))])

        most = int(there.max(initial=0))
        return cls(moments, upto(there >= 2), [upto(there == n) for n in range(2, most + 1)])

    def part(self, start: Ints, end: Ints) -> Floats:
        """The part of each of a tenant's spans in which another process had work, too."""
        return self._part(self.until, start, end)

    def crowd(self, start: Ints, end: Ints) -> Floats:
        """The parts of each span in which so many other processes had work: one, two, ..."""
        parts = [self._part(upto, start, end) for upto in self.crowds]
        return np.array(parts).reshape(len(parts), len(start))

    def _part(self, upto: Floats, start: Ints, end: Ints) -> Floats:
        origin = int(self.moments[0])
        moments = (self.moments - origin).astype(np.float64)
        until = np.interp(np.stack([start - origin, end - origin]), moments, upto)
        part: Floats = (until[1] - until[0]) / np.maximum(end - start, 1)
        return part
