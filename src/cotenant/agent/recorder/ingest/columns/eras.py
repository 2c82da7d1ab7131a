"""Text that depends on when a row happened: a handle that meant two things in turn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.agent.recorder.ingest.batch import Batch

Codes = npt.NDArray[np.int32]
Eras = Sequence[tuple[int, str | None]]  # Since when it means what, oldest first.


def by_time(
    batch: Batch, codes: Codes, words: list[str | None], changed: Mapping[int, Eras]
) -> Any:
    """Text per row; of the tuples whose meaning ``changed``, by when the row happened."""
    if not changed:
        return batch.spread(codes, words)
    rows = np.asarray(batch.each(codes)).astype(np.int64)
    whose = np.zeros(len(words), bool)
    whose[list(changed)] = True
    there = np.flatnonzero(whose[rows])
    # Starts and rows in one order: a row is of the era that began last before it.
    eras = sorted(changed.items())
    of = np.concatenate([np.repeat([c for c, _ in eras], [len(e) for _, e in eras]), rows[there]])
    # What came before the first is of the first.
    starts = [start if nth else 0 for _, each in eras for nth, (start, _) in enumerate(each)]
    when = np.concatenate([np.array(starts, np.uint64), batch.plain("timestamp_ns")[there]])
    is_row = np.arange(len(when)) >= len(starts)
    order = np.lexsort((is_row, when, of))
    began = np.cumsum(~is_row[order])
    place = order[is_row[order]] - len(starts)
    rows[there[place]] = len(words) + began[is_row[order]] - 1
    return batch.spread_rows(
        rows.astype(np.int32), [*words, *(text for _, each in eras for _, text in each)]
    )
