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
from numpy.typing import NDArray

from cotenant.query.derived import Ask
from cotenant.query.nnls import Fit, Prior, robust_fit

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
MOST_SPANS: Final = 20_000  # A sample of so many tells as much as all of them.
MOST_KERNELS: Final = 120
FEW_SIZES: Final = 6  # A kernel with more shapes has a time that grows with the shape.
FEWEST_SPANS: Final = 30
# From a launch to its start, and from the end to the wait's return; every span has it once.
OVERHEAD: Final = Prior(10_000.0, 10_000.0)
GOOD: Final = 0.10  # Standard error of a time, relative to it, above which it is not given.

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

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Items:
    """What each span held: one entry per span, kernel and size."""

    span: Ints  # From 0, without holes.
    kernel: Ints  # Index into ``names``.
    size: Ints
    launches: Floats
    span_ns: Floats  # Of each span.
    names: list[str]


@dataclass(frozen=True, slots=True)
class Time:
    """What was found for one kernel at one size, or at any."""

    kernel_name: str
    size: int | None
    base_ns: float
    per_size_ns: float
    quality: float
    reason: str | None

    @property
    def solved(self) -> bool:
        """Whether the equations tell it."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A kernel's place in the equations: one column, or two where its size matters."""

    kernel: int
    size: int | None
    first: int
    mean_size: float = 0.0

    def terms(self, columns: int, scale: float) -> Floats:
        """Its time at its mean size, as a sum of unknowns."""
        terms = np.zeros(columns)
        terms[self.first] = 1
        if self.size is None:
            terms[self.first + 1] = self.mean_size / scale
        return terms


_SIZE_SCALE: Final = 1024.0


def equations(items: Items) -> tuple[Floats, list[Unknown]]:
    """The matrix: the first column the constant, the last all kernels too rare for one."""
    spans = len(items.span_ns)
    order = np.argsort(-np.bincount(items.kernel, minlength=len(items.names)), kind="stable")
    columns: list[Floats] = [np.ones(spans)]
    unknowns: list[Unknown] = []

    def add(chosen: NDArray[np.bool_], values: Floats) -> None:
        columns.append(np.bincount(items.span[chosen], values, minlength=spans).astype(np.float64))

    for kernel in order[:MOST_KERNELS]:
        mine = items.kernel == kernel
        sizes = np.unique(items.size[mine])
        if len(sizes) <= FEW_SIZES:
            for size in sizes:
                chosen = mine & (items.size == size)
                unknowns.append(Unknown(int(kernel), int(size), len(columns)))
                add(chosen, items.launches[chosen])
            continue
        launches = items.launches[mine]
        mean = float(np.average(items.size[mine], weights=launches))
        unknowns.append(Unknown(int(kernel), None, len(columns), mean))
        add(mine, launches)
        add(mine, launches * items.size[mine] / _SIZE_SCALE)
    rest = np.isin(items.kernel, order[MOST_KERNELS:])
    if rest.any():
        add(rest, items.launches[rest])
    return np.column_stack(columns), unknowns


def solve(items: Items) -> tuple[list[Time], Fit | None]:
    """Every kernel's time, solved or with the reason why not."""
    if len(items.span_ns) < FEWEST_SPANS:
        why = f"only {len(items.span_ns)} spans end in a wait; {FEWEST_SPANS} are needed"
        return [Time(name, None, 0.0, 0.0, np.inf, why) for name in items.names], None
    matrix, unknowns = equations(items)
    fit = robust_fit(matrix, items.span_ns, OVERHEAD)
    return [_time(items, unknown, fit) for unknown in unknowns], fit


def _time(items: Items, unknown: Unknown, fit: Fit) -> Time:
    terms = unknown.terms(len(fit.solution), _SIZE_SCALE)
    value = float(terms @ fit.solution)
    quality = fit.error_of(terms) / value if value > 0 else np.inf
    reason = None
    if not fit.tells(terms):
        reason = "it always runs together with the same others: their times cannot be told apart"
    elif quality > GOOD:
        reason = f"the spans leave it uncertain by {min(quality, 9.99):.0%}"
    slope = float(fit.solution[unknown.first + 1]) / _SIZE_SCALE if unknown.size is None else 0.0
    return Time(
        kernel_name=items.names[unknown.kernel],
        size=unknown.size,
        base_ns=float(fit.solution[unknown.first]),
        per_size_ns=slope,
        quality=quality,
        reason=reason,
    )


def items_of(rows: Any) -> Items:
    """The entries of one tenant on one GPU, from rows of the query."""
    names = rows["kernel_name"].combine_chunks().dictionary_encode()
    _, span = np.unique(rows["span"].to_numpy(), return_inverse=True)
    span_ns = np.zeros(span.max() + 1 if len(span) else 0)
    span_ns[span] = rows["span_ns"].to_numpy()
    return Items(
        span=span.astype(np.int64),
        kernel=names.indices.to_numpy().astype(np.int64),
        size=rows["size"].to_numpy().astype(np.int64),
        launches=rows["launches"].to_numpy().astype(np.float64),
        span_ns=span_ns,
        names=names.dictionary.to_pylist(),
    )


def groups_of(rows: Any, *keys: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Runs of rows that agree in the keys; the rows are ordered by them."""
    if not rows.num_rows:
        return []
    changed = np.zeros(rows.num_rows, dtype=bool)
    changed[0] = True
    for key in keys:
        codes = rows[key].combine_chunks().dictionary_encode(null_encoding="encode").indices
        values = codes.to_numpy(zero_copy_only=False)
        changed[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(changed)
    ends = [*starts[1:], rows.num_rows]
    return [
        (tuple(rows[key][int(a)].as_py() for key in keys), rows.slice(int(a), int(b - a)))
        for a, b in zip(starts, ends, strict=True)
    ]


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
