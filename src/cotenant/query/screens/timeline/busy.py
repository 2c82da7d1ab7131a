"""Busy time of each tenant per cell of the timeline."""

from collections.abc import Iterator
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
    """Per tenant, the busy share of each of 512 cells, from 0 to 1, for each GPU that it used."""
    return {tenant: cells for (tenant,), cells in _cells(session, ("tenant",), start_ns, end_ns)}


def busy_cells_by_node(
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
    found = session.ask(
        "SELECT tenant, node, gpu, start_ns, end_ns FROM busy "
        f"WHERE end_ns > {start_ns} AND start_ns < {end_ns} ORDER BY tenant, node, gpu"
    ).table
    width = (end_ns - start_ns) / CELLS
    starts = (found["start_ns"].to_numpy() - start_ns) / width
    ends = (found["end_ns"].to_numpy() - start_ns) / width
    places = found.group_by(["tenant", "node", "gpu"], use_threads=False)
    last = 0
    for place in places.aggregate([("start_ns", "count")]).to_pylist():
        first, last = last, last + place["start_ns_count"]
        who = tuple(place[name] for name in by)
        gpus.setdefault(who, []).append(_covered(starts[first:last], ends[first:last]))
    for who, covered in gpus.items():
        yield who, [round(float(part), _DIGITS) for part in np.mean(covered, axis=0)]


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
