"""The table ``shared_time``: for each pair of tenants on a GPU, how long both had work on it."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.busy_intervals import BusyIntervals
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of

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

_SQL: Final = """
select node, coalesce(gpu, '') as place, gpu, tenant, start_ns, end_ns
from busy
order by node, place, tenant, start_ns
"""


def compute(ask: Ask) -> Any:
    """Every pair that shared a GPU for any time at all."""
    found: list[dict[str, Any]] = []
    for (node, gpu), rows in groups_of(ask(_SQL), "node", "gpu"):
        found += [{"node": node, "gpu": gpu} | pair for pair in _pairs(rows)]
    return pa.Table.from_pylist(found, SCHEMA)


def _pairs(rows: Any) -> list[dict[str, Any]]:
    origin = int(rows["start_ns"].to_numpy().min())
    end = float(rows["end_ns"].to_numpy().max() - origin)
    busy = {}
    for (tenant,), own in groups_of(rows, "tenant"):
        starts, ends = (own[name].to_numpy() - origin for name in ("start_ns", "end_ns"))
        busy[tenant] = BusyIntervals.of(
            starts.astype(np.float64), ends.astype(np.float64), 0.0, end
        )
    pairs = []
    for tenant, mine in busy.items():
        for other, its in busy.items():
            overlap = int(its.overlap(mine.starts, mine.ends).sum()) if tenant != other else 0
            if overlap:
                row = {"tenant": tenant, "other": other, "overlap_ns": overlap}
                pairs.append(row | {"busy_ns": int(mine.total), "share": overlap / mine.total})
    return pairs
