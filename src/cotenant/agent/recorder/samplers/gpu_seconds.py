"""Time queued per second, tenant and GPU, from spans as they are closed.

What an open span is certain to cover counts at once, and the rest when it is closed; so a second
may get rows more than once, and they add up. Of time that is covered already nothing is added: a
tenant counts once, however many streams it uses.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.recorder.ingest.spans import ClosedSpans, SpanMaker
from cotenant.agent.recorder.samplers.coverage import Coverage, covered_twice
from cotenant.agent.recorder.samplers.not_recorded import NotRecorded
from cotenant.agent.recorder.samplers.spans import SpanRows
from cotenant.identity.ledger import Ledger
from cotenant.schema.dimensions import GPU_OVERLAPS, GPU_SECONDS
from cotenant.store.segment import rows_of

_SECOND: Final = 1_000_000_000
_LATE_NS: Final = 3 * _SECOND  # A span that is not open yet began no longer ago.
_COUNTED_AS: Final = {
    "launch": "launches",
    "graph_launch": "launches",
    "memcpy": "copied_bytes",
    "sync": "waits",
}
_UNPROVEN: Final = 2  # As ``closed_by``: this and above.

Place = tuple[int, str | None]  # A tenant's cgroup, and the GPU.
Held = Callable[[], dict[Place, int | None]]


class TenantCgroups:
    """One cgroup to stand for all of a tenant's."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self._names: dict[int, str] = {}
        self._first: dict[str, int] = {}

    def look(self) -> None:
        """Names may have come since."""
        if self._ledger.version != self._version:
            self._version = self._ledger.version
            rows: list[Any] = self._ledger.rows()
            self._names = {row["cgroup_id"]: row["tenant"] for row in rows}
            there = set(self._names.values())
            self._first = {name: first for name, first in self._first.items() if name in there}

    def first(self, cgroup_id: int) -> int:
        """The first cgroup that was met of the same tenant."""
        name = self._names.get(cgroup_id)
        return cgroup_id if name is None else self._first.setdefault(name, cgroup_id)


class _GpuSums:
    """The sums of one row."""

    def __init__(self) -> None:
        self.sums: dict[str, int] = defaultdict(int)
        self.memory: int | None = None


Cells = dict[tuple[int, int, str | None], _GpuSums]  # By second, tenant's cgroup and GPU.


class GpuSeconds:
    """Writes what became known of each second since the last sample."""

    table: Final = "gpu_seconds"

    def __init__(
        self,
        maker: SpanMaker,
        spans: SpanRows,
        not_recorded: NotRecorded,
        ledger: Ledger,
        held: Held,
    ) -> None:
        self._not_recorded = not_recorded
        self._maker = maker
        self._spans = spans
        self._tenants = TenantCgroups(ledger)
        self._held = held
        self._covered: dict[str | None, dict[int, Coverage]] = {}
        self._proven: dict[str | None, dict[int, Coverage]] = {}
        self._newest_ns = 0
        self.overlaps = GpuOverlaps()

    def sample(self, now_ns: int) -> Any | None:
        """Rows for what became known; None if nothing did."""
        self._tenants.look()
        cells: Cells = defaultdict(_GpuSums)
        self._count(cells)
        if self._spans.closed is not None:
            self._cover(self._spans.closed, cells)
        self._hold(cells, now_ns)
        return rows_of(GPU_SECONDS, [_row(*at, c, now_ns) for at, c in cells.items()]) or None

    def _gpu(self, number: int) -> str | None:
        return self._maker.gpus.words[number] if number >= 0 else None

    def _count(self, cells: Cells) -> None:
        counted = self._maker.take_seconds()
        for entry in counted:
            at = int(entry["number"]), self._tenants.first(int(entry["cgroup_id"]))
            sums = cells[*at, self._gpu(int(entry["gpu"]))].sums
            for name in ("launches", "waits", "waited_ns", "copied_bytes"):
                sums[name] += int(entry[name])
        for op, left in self._not_recorded.take_gpu():
            if op not in _COUNTED_AS:
                continue
            at = left.timestamp_ns // _SECOND, self._tenants.first(left.cgroup_id)
            sums = cells[*at, None].sums
            sums[_COUNTED_AS[op]] += left.bytes if op == "memcpy" else left.events

    def _hold(self, cells: Cells, now_ns: int) -> None:
        held: dict[Place, int | None] = {}
        for (cgroup_id, gpu), size in self._held().items():
            place = self._tenants.first(cgroup_id), gpu
            before = held.get(place, 0)
            held[place] = None if size is None or before is None else before + size
        for place, size in held.items():
            if size:
                cells[now_ns // _SECOND, *place].memory = size

    def _cover(self, closed: ClosedSpans, cells: Cells) -> None:
        spans = np.concatenate([closed.spans, closed.open])
        proven = np.zeros(len(spans), bool)
        proven[: len(closed.spans)] = closed.spans["closed_by"] < _UNPROVEN
        distinct, places = np.unique(spans["cgroup_id"], return_inverse=True)
        firsts = [self._tenants.first(owner) for owner in distinct.tolist()]
        owners = np.array(firsts, np.int64)[places]
        numbers: dict[str | None, list[int]] = defaultdict(list)
        for number in np.unique(spans["gpu"]).tolist():
            numbers[self._gpu(number)].append(number)
        for gpu, same in numbers.items():
            here = np.isin(spans["gpu"], same)
            self._cover_gpu(gpu, owners[here], spans[here], proven[here], cells)
        self._forget(spans, closed.open)

    def _cover_gpu(
        self,
        gpu: str | None,
        owners: npt.NDArray[np.int64],
        spans: npt.NDArray[np.void],
        proven: npt.NDArray[np.bool_],
        cells: Cells,
    ) -> None:
        before, known = self._covered.get(gpu, {}), self._proven.get(gpu, {})
        after, now_known = (
            _grown(before, owners, spans),
            _grown(known, owners[proven], spans[proven]),
        )
        edges = _edges(spans)
        grown = [("queued_ns", before, after), ("unproven_ns", now_known, known)]
        # Work on GPUs that are not known may have been on different ones.
        if gpu is not None:
            grown.append(("overlapped_ns", _overlapped(before), _overlapped(after)))
            self.overlaps.gained(gpu, before, after, edges)
        for name, then, now in grown:
            for owner, second, ns in _gained(then, now, edges):
                cells[second, owner, gpu].sums[name] += ns
                if name == "queued_ns":
                    cells[second, owner, gpu].sums["unproven_ns"] += ns
        self._covered[gpu], self._proven[gpu] = after, now_known

    def _forget(self, spans: npt.NDArray[np.void], still_open: npt.NDArray[np.void]) -> None:
        """What nothing can grow into any more."""
        if len(spans):
            self._newest_ns = max(self._newest_ns, int(spans["end_ns"].max()))
        since = self._newest_ns - _LATE_NS
        if len(still_open):
            since = min(since, int(still_open["start_ns"].min()))
        for covered in (self._covered, self._proven):
            for gpu, owners in list(covered.items()):
                left = {owner: own.since(since) for owner, own in owners.items()}
                covered[gpu] = {owner: own for owner, own in left.items() if len(own.starts)}
                if not covered[gpu]:
                    del covered[gpu]


class GpuOverlaps:
    """Writes for each pair of tenants how long both had work on a GPU."""

    table: Final = "gpu_overlaps"

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []

    def gained(
        self,
        gpu: str,
        before: dict[int, Coverage],
        after: dict[int, Coverage],
        edges: npt.NDArray[np.int64],
    ) -> None:
        """Coverage grew: what pairs have in common may have grown."""
        owners = sorted(after)
        for at, one in enumerate(owners):
            for other in owners[at + 1 :]:
                then = before.get(one, Coverage()).shared(before.get(other, Coverage()))
                now = after[one].shared(after[other])
                for _, second, ns in _gained({0: then}, {0: now}, edges):
                    for pair in ((one, other), (other, one)):
                        self._waiting.append(_overlap(second, *pair, gpu, ns))

    def sample(self, now_ns: int) -> Any | None:
        """Rows for what became known; None if nothing did."""
        waiting, self._waiting = self._waiting, []
        return rows_of(GPU_OVERLAPS, waiting) if waiting else None


def _overlap(second: int, one: int, other: int, gpu: str, ns: int) -> dict[str, Any]:
    row = {"timestamp_ns": second * _SECOND, "cgroup_id": one, "other_cgroup_id": other}
    return row | {"gpu": gpu, "overlap_ns": ns}


def _grown(
    before: dict[int, Coverage], owners: npt.NDArray[np.int64], spans: npt.NDArray[np.void]
) -> dict[int, Coverage]:
    after = dict(before)
    for owner in np.unique(owners).tolist():
        own = spans[owners == owner]
        after[owner] = before.get(owner, Coverage()).with_more(own["start_ns"], own["end_ns"])
    return after


def _edges(spans: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """The seconds in which anything can have changed: where each begins, and the last ends."""
    first = int(spans["start_ns"].min()) // _SECOND
    last = int(spans["end_ns"].max()) // _SECOND + 1
    return np.arange(first, last + 1, dtype=np.int64) * _SECOND


def _overlapped(covered: dict[int, Coverage]) -> dict[int, Coverage]:
    if len(covered) < 2:
        return {}
    twice = covered_twice(list(covered.values()))
    return {owner: own.shared(twice) for owner, own in covered.items()}


def _gained(
    before: dict[int, Coverage], after: dict[int, Coverage], edges: npt.NDArray[np.int64]
) -> Iterable[tuple[int, int, int]]:
    """Owner, second and how much more of it is covered."""
    for owner in {**before, **after}:
        now, then = after.get(owner, Coverage()), before.get(owner, Coverage())
        gain = np.diff(now.until(edges)) - np.diff(then.until(edges))
        for at in np.flatnonzero(gain).tolist():
            yield owner, int(edges[at]) // _SECOND, int(gain[at])


def _row(second: int, owner: int, gpu: str | None, cell: _GpuSums, now_ns: int) -> dict[str, Any]:
    names = ("queued_ns", "overlapped_ns", "unproven_ns")
    counts = ("launches", "waits", "waited_ns", "copied_bytes")
    row: dict[str, Any] = {name: cell.sums[name] for name in (*names, *counts)}
    row |= {"timestamp_ns": second * _SECOND, "cgroup_id": owner, "gpu": gpu}
    return row | {"memory_bytes": cell.memory, "told_ns": now_ns}
