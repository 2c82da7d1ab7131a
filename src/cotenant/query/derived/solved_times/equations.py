"""The equations of spans: one row per span, one unknown per kernel and size."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MOST_KERNELS: Final = 120
FEW_SIZES: Final = 6  # A kernel with more shapes has a time that grows with the shape.
SIZE_SCALE: Final = 1024.0

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
    start: Floats  # Of each span, on whatever clock.


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
        add(mine, launches * items.size[mine] / SIZE_SCALE)
    rest = np.isin(items.kernel, order[MOST_KERNELS:])
    if rest.any():
        add(rest, items.launches[rest])
    return np.column_stack(columns), unknowns


def items_of(rows: Any) -> Items:
    """The entries of one tenant on one GPU, from rows of the query."""
    names = rows["kernel_name"].combine_chunks().dictionary_encode()
    _, span = np.unique(rows["span"].to_numpy(), return_inverse=True)
    span_ns = np.zeros(span.max() + 1 if len(span) else 0)
    span_ns[span] = rows["span_ns"].to_numpy()
    start = np.zeros(len(span_ns))
    start[span] = rows["start_ns"].to_numpy()
    return Items(
        span=span.astype(np.int64),
        kernel=names.indices.to_numpy().astype(np.int64),
        size=rows["size"].to_numpy().astype(np.int64),
        launches=rows["launches"].to_numpy().astype(np.float64),
        span_ns=span_ns,
        names=names.dictionary.to_pylist(),
        start=start,
    )
