"""When a store was recorded: what a window without any row is told from."""

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.answer import Interval
from cotenant.query.engine.snapshots import SnapshotReader
from cotenant.store.manifest import Segment
from cotenant.store.nodes import Nodes

STILL_NS: Final = 5_000_000_000  # Nothing newer than this, and it is a recording of the past.


def recorded_times(store: Path, nodes: Sequence[str]) -> list[Interval]:
    """When any of the nodes was recorded, in order; without a gap where that is not known."""
    segments = Nodes(store, nodes).segments()
    first = min((s.min_ns for s in segments if s.min_ns is not None), default=None)
    last = max((s.max_ns for s in segments if s.max_ns is not None), default=None)
    if first is None or last is None:
        return []
    if (now_ns := time.time_ns()) - last < STILL_NS:
        last = max(now_ns, last)
    found = _recordings(_sessions(store, segments), last)
    inside = [Interval(max(a, first), min(b, last)) for a, b in found if a <= last and b >= first]
    if not inside:
        return [Interval(first, last)]
    # Rows may lie a little before the first recording, and behind the last.
    inside[0] = Interval(first, inside[0].end_ns)
    inside[-1] = Interval(inside[-1].start_ns, last)
    return inside


def _sessions(store: Path, segments: Sequence[Segment]) -> list[dict[str, Any]]:
    with suppress(FileNotFoundError):
        rows = SnapshotReader(store).read([s for s in segments if s.table == "sessions"])
        if rows is not None:
            wanted = rows.select(["node", "started_ns", "ended_ns"])
            return list(wanted.sort_by("started_ns").to_pylist())
    return []


def _recordings(sessions: Sequence[dict[str, Any]], last_ns: int) -> list[tuple[int, int]]:
    """Of all nodes, joined where they touch; a killed one may have lasted until the next."""
    each: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sessions:
        each[row["node"]].append(row)
    times = []
    for rows in each.values():
        starts = [*(row["started_ns"] for row in rows), last_ns]
        for row, (start, end) in zip(rows, pairwise(starts), strict=True):
            times.append((start, max(row["ended_ns"] or end, start)))
    found: list[tuple[int, int]] = []
    for start, end in sorted(times):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
