"""The table ``shared_time``: for each pair of tenants on a GPU, how long both had work on it.

Of the time before the oldest spans that are kept, it is what was added up by the second.
"""

from collections import Counter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.queued_places import QueuedPlace, places_of
from cotenant.query.derived.registry import Ask

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("other", pa.string()),
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("overlap_ns", pa.int64()),
        ("queued_ns", pa.int64()),
        ("share", pa.float64()),
    ]
)


_SECONDS: Final = """
select g.node, g.gpu, c.tenant, sum(g.queued_ns)::bigint as queued_ns
from gpu_seconds g
join containers c using (cgroup_id)
where not by_spans(g.node, g.timestamp_ns) and g.queued_ns > 0
group by all
"""
_SHARED_SECONDS: Final = """
select o.node, o.gpu, c.tenant, n.tenant as other, sum(o.overlap_ns)::bigint as overlap_ns
from gpu_overlaps o
join containers c using (cgroup_id)
join containers n on n.cgroup_id = o.other_cgroup_id
where not by_spans(o.node, o.timestamp_ns) and c.tenant <> n.tenant
group by all
"""

Gpu = tuple[str, str | None]  # Of a node.


def compute(ask: Ask) -> Any:
    """Every pair that shared a GPU for any time at all, by spans and by what is left of others."""
    queued: Counter[tuple[Gpu, str]] = Counter()
    overlaps: Counter[tuple[Gpu, str, str]] = Counter()
    gpus: dict[Gpu, list[QueuedPlace]] = {}
    for place in places_of(ask, "by_spans(s.node, s.within_from_ns)", within=True):
        if place.gpu is not None and len(place.starts):
            gpus.setdefault((place.node, place.gpu), []).append(place)
    for gpu, places in gpus.items():
        _add(gpu, places, queued, overlaps)
    for row in ask(_SECONDS).to_pylist():
        queued[(row["node"], row["gpu"]), row["tenant"]] += row["queued_ns"]
    for row in ask(_SHARED_SECONDS).to_pylist():
        overlaps[(row["node"], row["gpu"]), row["tenant"], row["other"]] += row["overlap_ns"]
    found = [_row(*who, overlap, queued[who[:2]]) for who, overlap in overlaps.items() if overlap]
    return pa.Table.from_pylist(found, SCHEMA)


def _row(gpu: Gpu, tenant: str, other: str, overlap_ns: int, queued_ns: int) -> dict[str, Any]:
    row = {"tenant": tenant, "other": other, "node": gpu[0], "gpu": gpu[1]}
    return row | {"overlap_ns": overlap_ns, "queued_ns": queued_ns, "share": overlap_ns / queued_ns}


def _add(
    gpu: Gpu,
    places: list[QueuedPlace],
    queued: Counter[tuple[Gpu, str]],
    overlaps: Counter[tuple[Gpu, str, str]],
) -> None:
    """What the spans on one GPU tell."""
    origin = min(int(place.starts[0]) for place in places)
    end = float(max(int(place.ends[-1]) for place in places) - origin)
    each = {}
    for place in places:
        starts, ends = (times.astype(np.float64) for times in place.since(origin))
        each[place.tenant] = Intervals.of(starts, ends, 0.0, end)
    for tenant, mine in each.items():
        queued[gpu, tenant] += int(mine.total)
        for other, its in each.items():
            if tenant != other:
                overlap = int(its.overlap(mine.starts, mine.ends).sum())
                overlaps[gpu, tenant, other] += overlap
