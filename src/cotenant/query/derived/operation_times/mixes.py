"""What mixes of operations are made of, as arrays: kinds of operations, each with a number."""

from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SQL: Final = """
select mix, kernel_name, coalesce(size, 0) as size, count::double as count
from span_mixes
order by mix
"""


@dataclass(frozen=True, slots=True)
class MixTable:
    """Each mix once, in order, and the entries of each."""

    mix: Ints
    first: Ints  # Where its entries begin, and after the last where they end.
    kind: Ints
    count: Floats
    names: list[str]  # Of each kind.
    sizes: Ints

    @classmethod
    def of(cls, rows: Any) -> Self:
        """From rows of the query."""
        names = rows["kernel_name"].combine_chunks().dictionary_encode()
        name = names.indices.to_numpy().astype(np.int64)
        size, of_size = np.unique(rows["size"].to_numpy(), return_inverse=True)
        pair, kind = np.unique(name * max(len(size), 1) + of_size, return_inverse=True)
        dictionary = names.dictionary.to_pylist()
        mix, first = np.unique(rows["mix"].to_numpy(), return_index=True)
        return cls(
            mix=mix,
            first=np.append(first, rows.num_rows),
            kind=kind.astype(np.int64),
            count=rows["count"].to_numpy(),
            names=[dictionary[p // len(size)] for p in pair.tolist()],
            sizes=size[pair % max(len(size), 1)].astype(np.int64),
        )

    def place(self, mix: Ints) -> Ints:
        """Where each of these is; -1 where it is not known."""
        if not len(self.mix):
            return np.full(len(mix), -1)
        at = np.minimum(np.searchsorted(self.mix, mix), len(self.mix) - 1)
        return np.where(self.mix[at] == mix, at, -1)

    def kinds_of(self, mix: Ints) -> Ints:
        """The kinds of operations that these mixes are made of, in order."""
        place = self.place(np.unique(mix))
        entry, _ = self.entries(place[place >= 0])
        return np.unique(self.kind[entry])

    def entries(self, places: Ints) -> tuple[Ints, Ints]:
        """The entries of the mixes at these places, and of which of them each is."""
        counts = self.first[places + 1] - self.first[places]
        whose = np.repeat(np.arange(len(places)), counts)
        within = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.first[places][whose] + within, whose
