"""Busy time of each tenant per cell of the timeline."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.query.engine.session import Session

CELLS: Final = 512
MOST_EVENTS: Final = 250_000  # In the session's window; more take too long.
_DIGITS: Final = 3


def too_many(session: Session) -> bool:
    """Whether the window has too many events to compute this while a reader waits."""
    (row,) = session.ask("SELECT count(*) AS events FROM cuda_events").rows()
    return int(row["events"]) > MOST_EVENTS


def busy_cells(session: Session, start_ns: int, end_ns: int) -> dict[str, list[float]]:
    """Per tenant, the busy share of each of 512 cells, from 0 to 1."""
    found = session.ask(
        "SELECT tenant, start_ns, end_ns FROM busy "
        f"WHERE end_ns > {start_ns} AND start_ns < {end_ns}"
    ).table
    width = (end_ns - start_ns) / CELLS
    tenants = np.array(found["tenant"].to_pylist(), dtype=object)
    starts = (found["start_ns"].to_numpy() - start_ns) / width
    ends = (found["end_ns"].to_numpy() - start_ns) / width
    return {
        str(tenant): _covered(starts[tenants == tenant], ends[tenants == tenant])
        for tenant in sorted(set(tenants.tolist()))
    }


def _covered(starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> list[float]:
    """Intervals in units of a cell: how much of each cell they cover."""
    # What is covered up to a point is the sum of all ends before it, less all starts before it.
    edges = np.arange(CELLS + 1, dtype=float)
    upto = _length_before(np.sort(ends), edges) - _length_before(np.sort(starts), edges)
    covered = np.clip(-np.diff(upto), 0.0, 1.0)
    return [round(float(part), _DIGITS) for part in covered]


def _length_before(points: npt.NDArray[Any], edges: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """For each edge: the sum of edge - point over the points before it."""
    sums = np.concatenate(([0.0], np.cumsum(points)))
    before = np.searchsorted(points, edges)
    length: npt.NDArray[Any] = before * edges - sums[before]
    return length
