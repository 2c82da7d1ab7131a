"""Times of samples, each of which tells of the time since the one before it.

What is folded into one row are samples that follow each other: a recorder that was down for a while
leaves a gap between two rows, as it does between two samples.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.schema.folding import FIRST, MOST, SECOND_NS, TIME, Fold

_GAP_NS: Final = 2 * SECOND_NS

Times = npt.NDArray[np.int64]


def timed(fold: Fold, rows: Any) -> Any:
    """The rows, each with the first and the last sample of the row that it becomes part of."""
    if FIRST not in rows.column_names:
        rows = _with_samples(rows)
    first, last = rows.column(FIRST).to_numpy(), rows.column(TIME).to_numpy()
    # What ends with a minute is of that minute.
    order = np.lexsort((first, (last - 1) // fold.length_ns))
    begins = _begins(first[order], last[order], fold.length_ns)
    piece = np.empty(len(order), np.int64)
    piece[order] = np.cumsum(begins) - 1
    at = np.flatnonzero(begins)
    firsts, lasts = (
        how.reduceat(times[order], at) if len(at) else times
        for how, times in ((np.minimum, first), (np.maximum, last))
    )
    rows = rows.set_column(rows.column_names.index(FIRST), FIRST, pa.array(firsts[piece]))
    return rows.set_column(rows.column_names.index(TIME), TIME, pa.array(lasts[piece]))


def _begins(first: Times, last: Times, length_ns: int) -> npt.NDArray[np.bool_]:
    """Where another piece begins: with another period, or after a gap."""
    period = (last - 1) // length_ns
    begins = np.ones(len(first), np.bool_)
    reached = np.maximum.accumulate(last)[:-1]
    begins[1:] = (period[1:] != period[:-1]) | (first[1:] - reached > _GAP_NS)
    return begins


def _with_samples(rows: Any) -> Any:
    """Rows of seconds with the columns that coarser ones have besides."""
    rows = rows.append_column(FIRST, rows.column(TIME))
    for name, of in MOST.items():
        rows = rows.append_column(name, rows.column(of))
    return rows
