"""Device time per kernel, from spans alone.

A stream runs in order, so a span from the first launch to the wait that saw it done is

    span = c + sum over kernels of launches x time

Many spans with different mixes are equations enough. Where the mixes do not differ they are not,
however many there are: then no time is given, and ``reason`` says why.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.derived.solved_times.equations import (
    SIZE_SCALE,
    Items,
    Unknown,
    equations,
    items_of,
)
from cotenant.query.derived.solved_times.robust_fit import Fit, Prior, robust_fit

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("node", pa.string()),
        ("gpu", pa.string()),
        ("kernel_name", pa.string()),
        ("size", pa.int64()),  # NULL where the time grows with the size.
        ("base_ns", pa.float64()),
        ("per_size_ns", pa.float64()),
        ("quality", pa.float64()),
        ("solved", pa.bool_()),
        ("reason", pa.string()),
        ("spans", pa.int64()),
        ("unknowns", pa.int64()),
        ("rank", pa.int64()),
        ("condition", pa.float64()),
    ]
)
MOST_SPANS: Final = 20_000  # More do not improve the fit.
FEWEST_SPANS: Final = 30
# From a launch to its start, and from the end to the wait's return; every span has it once.
OVERHEAD: Final = Prior(10_000.0, 10_000.0)
GOOD: Final = 0.10  # Largest relative standard error of a time that is reported.

_SQL: Final = f"""
with eligible as (
    select *
    from spans
    where waited and streams = 1
    qualify row_number() over (partition by tenant, node, gpu order by span) <= {MOST_SPANS}
)
select s.tenant, s.node, s.gpu, s.span, s.span_ns, w.kernel_name,
       coalesce(w.size, 0) as size, sum(w.weight)::bigint as launches
from eligible s
join gpu_work w on w.span = s.span
group by all
order by s.tenant, s.node, s.gpu, s.span
"""


@dataclass(frozen=True, slots=True)
class SolvedTime:
    """What was found for one kernel at one size, or at any."""

    kernel_name: str
    size: int | None
    base_ns: float
    per_size_ns: float
    quality: float
    reason: str | None

    @property
    def solved(self) -> bool:
        """Whether the equations determine it."""
        return self.reason is None


def solve(items: Items) -> tuple[list[SolvedTime], Fit | None]:
    """Every kernel's time, solved or with the reason why not."""
    if len(items.span_ns) < FEWEST_SPANS:
        why = f"only {len(items.span_ns)} spans end in a wait; {FEWEST_SPANS} are needed"
        return [SolvedTime(name, None, 0.0, 0.0, np.inf, why) for name in items.names], None
    matrix, unknowns = equations(items)
    fit = robust_fit(matrix, items.span_ns, OVERHEAD)
    return [_time(items, unknown, fit) for unknown in unknowns], fit


def _time(items: Items, unknown: Unknown, fit: Fit) -> SolvedTime:
    terms = unknown.terms(len(fit.solution), SIZE_SCALE)
    value = float(terms @ fit.solution)
    quality = fit.error_of(terms) / value if value > 0 else np.inf
    reason = None
    if not fit.determines(terms):
        reason = "it always runs together with the same others: their times cannot be told apart"
    elif quality > GOOD:
        reason = f"the spans leave it uncertain by {min(quality, 9.99):.0%}"
    slope = float(fit.solution[unknown.first + 1]) / SIZE_SCALE if unknown.size is None else 0.0
    return SolvedTime(
        kernel_name=items.names[unknown.kernel],
        size=unknown.size,
        base_ns=float(fit.solution[unknown.first]),
        per_size_ns=slope,
        quality=quality,
        reason=reason,
    )


def compute(ask: Ask) -> Any:
    """The table ``solved_times``."""
    found = []
    for (tenant, node, gpu), rows in groups_of(ask(_SQL), "tenant", "node", "gpu"):
        items = items_of(rows)
        times, fit = solve(items)
        for time in times:
            row = {"tenant": tenant, "node": node, "gpu": gpu, "kernel_name": time.kernel_name}
            row |= {"size": time.size, "base_ns": time.base_ns, "per_size_ns": time.per_size_ns}
            row |= {"quality": time.quality if np.isfinite(time.quality) else None}
            row |= {"solved": time.solved, "reason": time.reason, "spans": len(items.span_ns)}
            if fit is not None:
                row |= {"unknowns": len(fit.solution), "rank": fit.rank}
                row |= {"condition": fit.condition}
            found.append(row)
    return pa.Table.from_pylist(found, SCHEMA)
