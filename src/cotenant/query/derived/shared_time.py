"""The table ``shared_time``: for each pair of tenants on a GPU, how long both had work on it."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.busy_intervals import BusyIntervals
from cotenant.query.derived.busy_places import BusyPlace, places_of
from cotenant.query.derived.registry import Ask

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("other", pa.string()),
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("overlap_ns", pa.int64()),
        ("busy_ns", pa.int64()),
        ("share", pa.float64()),
    ]
)


def compute(ask: Ask) -> Any:
    """Every pair that shared a GPU for any time at all."""
    gpus: dict[tuple[str, str | None], list[BusyPlace]] = {}
    for place in places_of(ask):
        if len(place.starts):
            gpus.setdefault((place.node, place.gpu), []).append(place)
    found: list[dict[str, Any]] = []
    for (node, gpu), places in gpus.items():
        found += [{"node": node, "gpu": gpu} | pair for pair in _pairs(places)]
    return pa.Table.from_pylist(found, SCHEMA)


def _pairs(places: list[BusyPlace]) -> list[dict[str, Any]]:
    origin = min(int(place.starts[0]) for place in places)
    end = float(max(int(place.ends[-1]) for place in places) - origin)
    busy = {}
    for place in places:
        starts, ends = (times.astype(np.float64) for times in place.since(origin))
        busy[place.tenant] = BusyIntervals.of(starts, ends, 0.0, end)
    pairs = []
    for tenant, mine in busy.items():
        for other, its in busy.items():
            overlap = int(its.overlap(mine.starts, mine.ends).sum()) if tenant != other else 0
            if overlap:
                row = {"tenant": tenant, "other": other, "overlap_ns": overlap}
                pairs.append(row | {"busy_ns": int(mine.total), "share": overlap / mine.total})
    return pairs
