"""Device time per kernel, from spans alone.

A stream runs in order, so a span from the first launch to the wait that saw it done is

    span = c + sum over kernels of launches x time

Many spans with different mixes are equations enough. Where the mixes do not differ they are not,
however many there are: then no time is given, and ``reason`` says why. Neither is one where spans
are not of one sort. A time is that of a kernel alone on its GPU: spans during which others had work
there are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.queued_places import QueuedPlace, places_of
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.derived.solved_times.equations import (
    SIZE_SCALE,
    Items,
    MixEntries,
    Unknown,
    equations,
)
from cotenant.query.derived.solved_times.robust_fit import Fit, Prior, robust_fit
from cotenant.query.derived.solved_times.sameness import Heap, blocks_of, distance, why_not_one
from cotenant.query.derived.student import NORMAL_975, student_975

Floats = NDArray[np.float64]

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
        ("low_ns", pa.float64()),  # The interval that holds the time of a launch of mean size.
        ("high_ns", pa.float64()),
        ("quiet_spans", pa.int64()),  # During which no other tenant had work on the GPU.
    ]
)
MOST_SPANS: Final = 20_000  # More do not improve the fit.
FEWEST_SPANS: Final = 30
# From a launch to its start, and from the end to the wait's return; every span has it once.
OVERHEAD: Final = Prior(10_000.0, 10_000.0)
GOOD: Final = 0.10  # Largest relative standard error of a time that is reported.
QUIET: Final = 0.02  # A span may overlap so much with others' work.
_HIDDEN: Final = 0.5  # Of the spread: by so much heaps may differ without being told apart.

# A span's number is a hash of it: the smallest are a sample, and so few are not worth sorting all.
_ELIGIBLE: Final = f"""
with proven as (
    select tenant, node, gpu, span, span_ns, start_ns, mix
    from spans
    where waited and streams = 1
),
counted as (
    select tenant, node, gpu, 1.2 * {MOST_SPANS} / count(*) as part
    from proven
    group by all
)
select p.*
from proven p
join counted c
  on c.tenant = p.tenant and c.node = p.node and c.gpu is not distinct from p.gpu
where c.part >= 1 or p.span <= c.part * 18446744073709551615
qualify row_number() over (partition by p.tenant, p.node, p.gpu order by p.span) <= {MOST_SPANS}
order by p.tenant, p.node, p.gpu, p.span
"""
_MIXES: Final = f"""
select mix, kernel_name, coalesce(size, 0) as size, count as launches
from span_mixes
where mix in (select mix from ({_ELIGIBLE}))
order by mix
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
    low_ns: float = np.nan
    high_ns: float = np.nan

    @property
    def solved(self) -> bool:
        """Whether the equations determine it."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Solution:
    """The times of a tenant's kernels on a GPU, and what they were solved from."""

    times: list[SolvedTime]
    fit: Fit | None = None
    quiet: int = 0


def _unsolved(items: Items, why: str, quiet: int = 0) -> Solution:
    times = [SolvedTime(name, None, 0.0, 0.0, np.inf, why) for name in items.names]
    return Solution(times, None, quiet)


def solve(items: Items, crowd: Floats | None = None, *, gpu_known: bool = True) -> Solution:
    """Every kernel's time, solved or with the reason why not.

    ``crowd`` is the part of each span in which other tenants had work on the GPU; where it is not
    known, in which they may have had.
    """
    if len(items.span_ns) < FEWEST_SPANS:
        why = f"only {len(items.span_ns)} spans end in a wait; {FEWEST_SPANS} are needed"
        return _unsolved(items, why)
    quiet = np.ones(len(items.span_ns), dtype=bool) if crowd is None else crowd <= QUIET
    count = int(quiet.sum())
    if count < FEWEST_SPANS:
        had = "others had" if gpu_known else "its GPU is not known, and others may have had"
        why = f"{had} work on the GPU during all but {count} of {len(quiet)} spans"
        return _unsolved(items, why, count)
    matrix, unknowns = equations(items)
    matrix, values = matrix[quiet], items.span_ns[quiet]
    blocks = blocks_of(items.start[quiet])
    fit = robust_fit(matrix, values, OVERHEAD, blocks)
    expected = matrix @ fit.solution
    why_not = why_not_one(values, expected, float(fit.solution[0]), blocks)
    # Together the times are never more than the spans took.
    scale = min(1.0, float(values.sum()) / max(float(expected.sum()), 1.0))
    judge = _Judge(items, fit, Heap.of(distance(values, expected)).spread, why_not, scale)
    return Solution([judge.time(u, matrix) for u in unknowns], fit, count)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What a fit says of each kernel."""

    items: Items
    fit: Fit
    spread: float
    why_not: str | None
    scale: float

    def time(self, unknown: Unknown, matrix: Floats) -> SolvedTime:
        """One kernel's time, or why it is not known."""
        fit = self.fit
        terms = unknown.terms(len(fit.solution), SIZE_SCALE)
        value = float(terms @ fit.solution) * self.scale
        half = student_975(fit.freedom) * fit.error_of(terms) + _HIDDEN * self.spread * value
        quality = half / NORMAL_975 / value if value > 0 else np.inf
        slope = float(fit.solution[unknown.first + 1]) / SIZE_SCALE if unknown.size is None else 0
        return SolvedTime(
            kernel_name=self.items.names[unknown.kernel],
            size=unknown.size,
            base_ns=float(fit.solution[unknown.first]) * self.scale,
            per_size_ns=slope * self.scale,
            quality=quality,
            reason=self._reason(terms, quality, ran=bool(matrix[:, unknown.first].any())),
            low_ns=max(value - half, 0.0),
            high_ns=value + half,
        )

    def _reason(self, terms: Floats, quality: float, *, ran: bool) -> str | None:
        if not ran:
            return "it ran only while others had work on the GPU"
        if self.why_not is not None:
            return self.why_not
        if not self.fit.determines(terms):
            return "it always runs together with the same others: their times cannot be told apart"
        if quality > GOOD:
            return f"the spans leave it uncertain by {min(quality, 9.99):.0%}"
        return None


def _crowds(ask: Ask) -> Callable[[str, str | None, str, Floats, Floats], Floats]:
    """How much of some intervals of a tenant on a GPU others had work queued there."""
    places: dict[tuple[str, str | None], list[QueuedPlace]] = {}
    for place in places_of(ask):
        places.setdefault((place.node, place.gpu), []).append(place)

    def crowd(node: str, gpu: str | None, tenant: str, start: Floats, end: Floats) -> Floats:
        others = [place for place in places.get((node, gpu), []) if place.tenant != tenant]
        if not others or not len(start):
            return np.zeros(len(start))
        origin, last = float(start.min()), float(end.max())
        starts = np.concatenate([place.starts for place in others]) - origin
        ends = np.concatenate([place.ends for place in others]) - origin
        queued = Intervals.of(starts, ends, 0.0, last - origin)
        part: Floats = queued.overlap(start - origin, end - origin) / np.maximum(end - start, 1)
        return part

    return crowd


def compute(ask: Ask) -> Any:
    """The table ``solved_times``."""
    found = []
    crowd = _crowds(ask)
    mixes = MixEntries.of(ask(_MIXES))
    for (tenant, node, gpu), rows in groups_of(ask(_ELIGIBLE), "tenant", "node", "gpu"):
        items = mixes.items_of(rows)
        if not len(items.span_ns):
            continue
        crowded = crowd(node, gpu, tenant, items.start, items.start + items.span_ns)
        solution = solve(items, crowded, gpu_known=gpu is not None)
        place = {"tenant": tenant, "node": node, "gpu": gpu, "spans": len(items.span_ns)}
        found += [place | _row(time, solution) for time in solution.times]
    return pa.Table.from_pylist(found, SCHEMA)


def _row(time: SolvedTime, solution: Solution) -> dict[str, Any]:
    row = {"kernel_name": time.kernel_name, "size": time.size, "base_ns": time.base_ns}
    row |= {"per_size_ns": time.per_size_ns, "quality": _number(time.quality)}
    row |= {"solved": time.solved, "reason": time.reason, "quiet_spans": solution.quiet}
    row |= {"low_ns": _number(time.low_ns), "high_ns": _number(time.high_ns)}
    if solution.fit is not None:
        row |= {"unknowns": len(solution.fit.solution), "rank": solution.fit.rank}
        row |= {"condition": solution.fit.condition}
    return row


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
