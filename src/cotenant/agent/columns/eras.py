"""Text that depends on when a row happened: a handle that meant two things in turn."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from cotenant.agent.batch import Batch

Codes = npt.NDArray[np.int32]


def by_time(
    batch: Batch,
    codes: Codes,
    words: list[str | None],
    eras_of: Callable[[int], Sequence[tuple[int, str | None]]],
) -> tuple[Codes, list[str | None]]:
    """Split each code whose meaning changed; ``eras_of`` has (since, text), oldest first."""
    times = None
    for code in range(len(words)):
        eras = eras_of(code)
        if len(eras) < 2:
            continue
        if times is None:
            times = batch.plain("timestamp_ns")
            codes = codes.copy()
        rows = np.flatnonzero(codes == code)
        starts = np.array([start for start, _ in eras[1:]], np.uint64)
        codes[rows] = len(words) + np.searchsorted(starts, times[rows], side="right")
        words = [*words, *(text for _, text in eras)]
    return codes, words
