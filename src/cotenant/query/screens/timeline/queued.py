"""Time queued of each tenant per cell of the timeline."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.query.engine.session import Session

CELLS: Final = 512
MOST_SPANS: Final = 250_000  # In the session's window; more take too long.
_DIGITS: Final = 3
_SECOND_NS: Final = 1_000_000_000
_SECONDS: Final = """
SELECT c.tenant, c.node, s.gpu, s.timestamp_ns AS start_ns, end_ns,
       least(sum(s.queued_ns), end_ns - s.timestamp_ns)::BIGINT AS queued_ns
  FROM (SELECT *, timestamp_ns + seconds * 1000000000 AS end_ns FROM gpu_seconds) s
  JOIN containers c USING (cgroup_id)
 GROUP BY c.tenant, c.node, s.gpu, s.timestamp_ns, end_ns
 ORDER BY c.tenant, c.node, s.gpu, start_ns, end_ns
"""


def too_many(session: Session, start_ns: int, end_ns: int) -> bool:
    """Whether there is too much to tell while a reader waits: not in cells of a second or more."""
    return end_ns - start_ns < CELLS * _SECOND_NS and many_spans(session)


def many_spans(session: Session) -> bool:
    """Whether a reader would wait for what is made of them."""
    (row,) = session.ask("SELECT count(*) AS n FROM spans").rows()
    return int(row["n"]) > MOST_SPANS


def queued_cells(session: Session, start_ns: int, end_ns: int) -> dict[str, list[float]]:
    """Per tenant, the queued share of each of 512 cells, from 0 to 1, for each GPU that it used."""
    return {tenant: cells for (tenant,), cells in _cells(session, ("tenant",), start_ns, end_ns)}


def queued_cells_by_node(
    session: Session, start_ns: int, end_ns: int
) -> dict[str, dict[str, list[float]]]:
    """The same, per node and tenant."""
    found: dict[str, dict[str, list[float]]] = {}
    for (node, tenant), cells in _cells(session, ("node", "tenant"), start_ns, end_ns):
        found.setdefault(str(node), {})[tenant] = cells
    return found


def _cells(
    session: Session, by: tuple[str, ...], start_ns: int, end_ns: int
) -> Iterator[tuple[tuple[Any, ...], list[float]]]:
    gpus: dict[tuple[Any, ...], list[npt.NDArray[Any]]] = {}
    width = (end_ns - start_ns) / CELLS
    rough = width >= _SECOND_NS and many_spans(session)
    found = session.ask(_SECONDS if rough else _intervals_sql(start_ns, end_ns)).table
    starts = (found["start_ns"].to_numpy() - start_ns) / width
    ends = (found["end_ns"].to_numpy() - start_ns) / width
    queued = found["queued_ns"].to_numpy() / width
    places = found.group_by(["tenant", "node", "gpu"], use_threads=False)
    last = 0
    for place in places.aggregate([("start_ns", "count")]).to_pylist():
        first, last = last, last + place["start_ns_count"]
        who = tuple(place[name] for name in by)
        mine = slice(first, last)
        covered = (
            _spread(starts[mine], ends[mine], queued[mine])
            if rough
            else _covered(starts[mine], ends[mine])
        )
        gpus.setdefault(who, []).append(covered)
    for who, covered_by in gpus.items():
        yield who, [round(float(part), _DIGITS) for part in np.mean(covered_by, axis=0)]


def _intervals_sql(start_ns: int, end_ns: int) -> str:
    return (
        "SELECT tenant, node, gpu, start_ns, end_ns, queued_ns FROM queued "
        f"WHERE end_ns > {start_ns} AND start_ns < {end_ns} ORDER BY tenant, node, gpu"
    )


def _spread(
    starts: npt.NDArray[Any], ends: npt.NDArray[Any], queued: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Time queued in intervals in units of a cell, as if it were even in each."""
    sums = np.concatenate(([0.0], np.cumsum(queued)))
    times = np.column_stack((starts, ends)).ravel()
    upto = np.interp(np.arange(CELLS + 1), times, np.column_stack((sums[:-1], sums[1:])).ravel())
    covered: npt.NDArray[Any] = np.clip(np.diff(upto), 0.0, 1.0)
    return covered


def _covered(starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Intervals in units of a cell: how much of each cell they cover."""
    # What is covered up to a point is the sum of all ends before it, less all starts before it.
    edges = np.arange(CELLS + 1, dtype=float)
    upto = _length_before(np.sort(ends), edges) - _length_before(np.sort(starts), edges)
    covered: npt.NDArray[Any] = np.clip(-np.diff(upto), 0.0, 1.0)
    return covered


def _length_before(points: npt.NDArray[Any], edges: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """For each edge: the sum of edge - point over the points before it."""
    sums = np.concatenate(([0.0], np.cumsum(points)))
    before = np.searchsorted(points, edges)
    length: npt.NDArray[Any] = before * edges - sums[before]
    return length
