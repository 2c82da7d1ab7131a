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


@dataclass(frozen=True, slots=True)
class MixEntries:
    """What each mix of operations has, in order of the mix."""

    mix: Ints  # Each once.
    first: Ints  # Where its entries begin, and after the last where they end.
    kernel: Ints  # Index into ``names``.
    size: Ints
    launches: Floats
    names: list[str]

    @classmethod
    def of(cls, rows: Any) -> "MixEntries":
        """From rows of ``span_mixes``, ordered by mix."""
        names = rows["kernel_name"].combine_chunks().dictionary_encode()
        mix, first = np.unique(rows["mix"].to_numpy(), return_index=True)
        return cls(
            mix=mix,
            first=np.append(first, rows.num_rows),
            kernel=names.indices.to_numpy().astype(np.int64),
            size=rows["size"].to_numpy().astype(np.int64),
            launches=rows["launches"].to_numpy().astype(np.float64),
            names=names.dictionary.to_pylist(),
        )

    def entries(self, places: Ints) -> tuple[Ints, Ints]:
        """The entries of the mixes at these places, and of which of them each is."""
        counts = self.first[places + 1] - self.first[places]
        whose = np.repeat(np.arange(len(places)), counts)
        within = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.first[places][whose] + within, whose

    def place(self, mix: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Where each of these is, and whether it is known at all."""
        if not len(self.mix):
            return np.zeros(len(mix), np.int64), np.zeros(len(mix), bool)
        place = np.minimum(np.searchsorted(self.mix, mix), len(self.mix) - 1)
        return place, self.mix[place] == mix

    def items_of(self, spans: Any) -> Items:
        """The entries of one tenant's spans on one GPU; spans of unknown mixes are left out."""
        mix = spans["mix"].combine_chunks().fill_null(0).to_numpy()
        place, known = self.place(mix)
        entry, span = self.entries(place[known])
        kernels, kernel = np.unique(self.kernel[entry], return_inverse=True)
        return Items(
            span=span,
            kernel=kernel.astype(np.int64),
            size=self.size[entry],
            launches=self.launches[entry],
            span_ns=spans["span_ns"].to_numpy()[known].astype(np.float64),
            names=[self.names[k] for k in kernels],
            start=spans["start_ns"].to_numpy()[known].astype(np.float64),
        )

    def all_items(self) -> Items:
        """Each mix once, as if it were a span."""
        entry, span = self.entries(np.arange(len(self.mix)))
        none = np.zeros(len(self.mix))
        return Items(
            span, self.kernel[entry], self.size[entry], self.launches[entry], none, self.names, none
        )
