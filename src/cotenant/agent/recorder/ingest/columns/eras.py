"""Text that depends on when a row happened: a handle that meant two things in turn."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from cotenant.agent.recorder.ingest.batch import Batch

Codes = npt.NDArray[np.int32]
Eras = Sequence[tuple[int, str]]  # Since when it means what, oldest first.


def by_time(
    batch: Batch,
    codes: Codes,
    words: list[str | None],
    changed: Mapping[int, Eras],
    text: Callable[[int, str], str | None] = lambda _, meaning: meaning,
) -> Any:
    """Text per row; of the tuples whose meaning ``changed``, by when the row happened.

    Tenants choose how many tuples have the same eras: what these cost, they cost once for all
    tuples that share one list. ``text`` says what a meaning is called, for a tuple that has it.
    """
    if not changed:
        return batch.spread(codes, words)
    lists = {id(eras): eras for eras in changed.values()}
    group = {key: number for number, key in enumerate(lists)}
    whose = np.full(len(words), -1)
    whose[list(changed)] = [group[id(eras)] for eras in changed.values()]
    rows = np.asarray(batch.each(codes)).astype(np.int64)
    there = np.flatnonzero(whose[rows] >= 0)
    of_row, row_ns = whose[rows[there]], batch.plain("timestamp_ns")[there]
    eras = _asked_for(list(lists.values()), of_row, row_ns)
    # Starts and rows in one order: a row is of the era that began last before it.
    of = np.concatenate([np.repeat(np.arange(len(eras)), [len(each) for each in eras]), of_row])
    # What came before the first is of the first.
    starts = [start if nth else 0 for each in eras for nth, (start, _) in enumerate(each)]
    when = np.concatenate([np.array(starts, np.uint64), row_ns])
    is_row = np.arange(len(when)) >= len(starts)
    order = np.lexsort((is_row, when, of))
    era = np.zeros(len(there), np.int64)
    era[order[is_row[order]] - len(starts)] = np.cumsum(~is_row[order])[is_row[order]] - 1
    meanings = [meaning for each in eras for _, meaning in each]
    pairs, places = np.unique(rows[there] * len(meanings) + era, return_inverse=True)
    rows[there] = len(words) + places
    told = (divmod(pair, len(meanings)) for pair in pairs.tolist())
    return batch.spread_rows(
        rows.astype(np.int32),
        [*words, *(text(code, meanings[nth]) for code, nth in told)],
    )


def _asked_for(
    lists: list[Eras], of_row: npt.NDArray[np.int64], row_ns: npt.NDArray[np.uint64]
) -> list[Eras]:
    """Of each list, the eras that were not over before its first row, nor began after its last."""
    first = np.full(len(lists), np.iinfo(np.uint64).max, np.uint64)
    last = np.zeros(len(lists), np.uint64)
    np.minimum.at(first, of_row, row_ns)
    np.maximum.at(last, of_row, row_ns)
    start = itemgetter(0)
    found = []
    for eras, first_ns, last_ns in zip(lists, first.tolist(), last.tolist(), strict=True):
        since = max(bisect_right(eras, first_ns, key=start) - 1, 0)
        found.append(eras[since : max(bisect_right(eras, last_ns, key=start), since + 1)])
    return found
