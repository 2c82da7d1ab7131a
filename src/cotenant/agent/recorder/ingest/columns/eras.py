"""Text that depends on when a row happened: a handle that meant two things in turn."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.agent.recorder.ingest.batch import Batch

Codes = npt.NDArray[np.int32]


def by_time(
    batch: Batch,
    codes: Codes,
    words: list[str | None],
    eras_of: Callable[[int], Sequence[tuple[int, str | None]]],
) -> Any:
    """Text per row; ``eras_of`` a tuple whose meaning changed: (since, text), oldest first."""
    changed = {code: eras for code in range(len(words)) if len(eras := eras_of(code)) > 1}
    if not changed:
        return batch.spread(codes, words)
    times = batch.plain("timestamp_ns")
    rows = np.asarray(batch.each(codes))
    by_era = rows.copy()
    for code, eras in changed.items():
        there = np.flatnonzero(rows == code)
        starts = np.array([start for start, _ in eras[1:]], np.uint64)
        by_era[there] = len(words) + np.searchsorted(starts, times[there], side="right")
        words = [*words, *(text for _, text in eras)]
    return batch.spread_rows(by_era, words)
