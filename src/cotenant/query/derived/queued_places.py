"""When each tenant had work on each GPU, as arrays: what the view ``queued`` has as rows."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.intervals import joined
from cotenant.query.derived.registry import Ask

Ints = NDArray[np.int64]

# Names are long, and spans are many: each place has a number.
PLACES: Final = """
select row_number() over (order by node, gpu nulls first, tenant) - 1 as number, node, gpu, tenant
from (select distinct node, gpu, tenant from spans_in_flight)
"""
_NUMBERED: Final = f"""
s join ({PLACES}) p
  on p.node = s.node and p.tenant = s.tenant and p.gpu is not distinct from s.gpu
"""
NUMBERED: Final = f"spans {_NUMBERED}"
_WHOLE: Final = "s.start_ns, s.end_ns"
_WITHIN: Final = "s.within_from_ns as start_ns, s.within_to_ns as end_ns"
_CERTAIN: Final = """
greatest(s.certain_from_ns, s.within_from_ns) as start_ns,
least(s.certain_until_ns, s.within_to_ns) as end_ns
"""
_TIMES: Final = f"from spans_in_flight {_NUMBERED}"


@dataclass(frozen=True, slots=True)
class QueuedPlace:
    """A tenant on a GPU, or on those of its GPUs that are not known."""

    number: int
    node: str
    gpu: str | None
    tenant: str
    starts: Ints
    ends: Ints

    def since(self, origin: int) -> tuple[Ints, Ints]:
        """When each interval begins and ends, from then on."""
        return self.starts - origin, self.ends - origin


def certain_places_of(ask: Ask, where: str) -> list[QueuedPlace]:
    """When the device worked for each tenant for certain, within the window."""
    return _places_of(ask, _CERTAIN, f"s.certain_from_ns < s.certain_until_ns and ({where})")


def places_of(ask: Ask, where: str = "true", *, within: bool = False) -> list[QueuedPlace]:
    """Every tenant on every GPU, in order of node, GPU and tenant; its spans ``s`` joined.

    Spans that reach into the window are whole, or cut at its edges to what is ``within`` it.
    """
    return _places_of(ask, _WITHIN if within else _WHOLE, where)


def _places_of(ask: Ask, times: str, where: str) -> list[QueuedPlace]:
    names: list[dict[str, Any]] = ask(f"{PLACES} order by number").to_pylist()
    if not names:
        return []
    rows = ask(f"select p.number::smallint as number, {times} {_TIMES} where {where}")
    numbers = rows["number"].to_numpy()
    order = np.argsort(numbers, kind="stable")
    starts, ends = (rows[name].to_numpy()[order] for name in ("start_ns", "end_ns"))
    edges = np.searchsorted(numbers[order], np.arange(len(names) + 1))
    found = []
    for name, first, last in zip(names, edges, edges[1:], strict=False):
        there = ends[first:last] > starts[first:last]
        begun, ended = joined(starts[first:last][there], ends[first:last][there])
        found.append(QueuedPlace(**name, starts=begun, ends=ended))
    return found
