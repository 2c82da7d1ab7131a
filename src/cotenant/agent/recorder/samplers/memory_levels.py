"""What tenants hold between two samples, from their allocations and frees.

A sample says what is held once a second. The rows in between say when it was more: their sums
begin at the sample before, and must end at the one after.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import KNOWN, Batch
from cotenant.probes.function import Flag
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import CUDA_RECORD, ENUMS

Holder = tuple[int, str | None]  # The tenant's stored id, and its GPU.
FindGpu = Callable[[Process, int], str | None]

_OPS: Final = {text: number for number, text in ENUMS["cuda_op"].items()}
_SIGNS: Final = {_OPS["alloc"]: 1, _OPS["free"]: -1}
_RESULT: Final = CUDA_RECORD.field("result").known
_RACE_NS: Final = 5_000_000  # What changes so shortly before or after a sample may be in it or not.
_MOST: Final = 64  # Levels of a holder between two samples; of more, the highest is kept.


class Level(NamedTuple):
    """What is held from a moment on, UTC."""

    at_ns: int
    bytes: int
    allocations: int


class _Change(NamedTuple):
    at_ns: int
    process: Process
    context: int
    cgroup_id: int
    bytes: int  # Negative for a free.


@dataclass(slots=True)
class _Sum:
    """The sum of a holder's changes so far."""

    bytes: int = 0
    allocations: int = 0
    held: dict[Process, Level] = field(default_factory=dict)


class MemoryLevels:
    """Collects changes as rows come, and turns them into levels at each sample."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._sums: dict[Holder, _Sum] = {}

    def add(self, batch: Batch, rows: Any) -> None:
        """A batch of CUDA calls, and the rows that were made of it."""
        ops = batch.field("op")
        ours = np.isin(ops, list(_SIGNS)) & (batch.field("result") == 0)
        ours &= batch.field(KNOWN) >> _RESULT & 1 == 1
        for number in np.flatnonzero(ours).tolist():
            function = BY_ID.get(int(batch.field("api")[number]))
            ours[number] = function is None or not function.flags & Flag.HOST
        places = np.flatnonzero(ours[batch.codes])
        if not len(places):
            return
        codes = batch.codes[places]
        taken = rows.select(["timestamp_ns", "duration_ns", "bytes", "cgroup_id"]).take(places)
        keys = {name: batch.field(name).tolist() for name in ("pid", "process_start_ns", "context")}
        for code, row in zip(codes.tolist(), taken.to_pylist(), strict=True):
            process = Process(keys["pid"][code], keys["process_start_ns"][code])
            size = _SIGNS[int(ops[code])] * (row["bytes"] or 0)
            at_ns = row["timestamp_ns"] + (row["duration_ns"] or 0)
            if size:
                self._changes.append(
                    _Change(at_ns, process, keys["context"][code], row["cgroup_id"], size)
                )

    def take(
        self,
        until_ns: int,
        held: dict[Holder, tuple[int | None, int]],
        gone: Iterable[Process],
        gpu: FindGpu,
    ) -> dict[Holder, list[Level]]:
        """Levels of each holder until the sample that shows ``held``, in order."""
        of_holder: dict[Holder, list[_Change]] = defaultdict(list)
        later: dict[Holder, list[_Change]] = defaultdict(list)
        for change in sorted(self._changes):
            holder = change.cgroup_id, gpu(change.process, change.context)
            (later if change.at_ns > until_ns else of_holder)[holder].append(change)
        self._changes = [change for changes in later.values() for change in changes]
        gone = set(gone)
        found = {}
        for holder in {**of_holder, **self._sums}:
            near = [c for c in of_holder[holder] if c.at_ns > until_ns - _RACE_NS]
            ahead = [c for c in later[holder] if c.at_ns < until_ns + _RACE_NS]
            now = held.get(holder, (0, 0))
            found[holder] = self._levels(holder, of_holder[holder], now, gone, (near, ahead))
        self._sums = {h: s for h, s in self._sums.items() if s.bytes or h in held}
        return {holder: levels for holder, levels in found.items() if levels}

    def _levels(
        self,
        holder: Holder,
        changes: list[_Change],
        now: tuple[int | None, int],
        gone: set[Process],
        racing: tuple[list[_Change], list[_Change]],
    ) -> list[Level]:
        total = self._sums.setdefault(holder, _Sum())
        levels = []
        # What a process held is free right after its last change, or when it was gone before any.
        last = {change.process: place for place, change in enumerate(changes)}
        for process in [p for p in total.held if p in gone and p not in last]:
            _leave(total, process)
        for place, change in enumerate(changes):
            _apply(total, change)
            levels.append(Level(change.at_ns, total.bytes, total.allocations))
            if change.process in gone and last[change.process] == place:
                _leave(total, change.process)
        if now[0] in _sums(total.bytes, *racing):
            return _fewer(levels)
        # Something is missing: go on from what the kernel says.
        total.bytes, total.allocations = now[0] or 0, now[1]
        return []


def _apply(total: _Sum, change: _Change) -> None:
    count = 1 if change.bytes > 0 else -1
    own = total.held.get(change.process, Level(0, 0, 0))
    total.held[change.process] = Level(0, own.bytes + change.bytes, own.allocations + count)
    total.bytes += change.bytes
    total.allocations += count


def _leave(total: _Sum, process: Process) -> None:
    own = total.held.pop(process)
    total.bytes -= own.bytes
    total.allocations -= own.allocations


def _sums(size: int, near: list[_Change], ahead: list[_Change]) -> set[int]:
    """What a sample may show, of changes shortly before it and after."""
    without = accumulate((-change.bytes for change in reversed(near)), initial=size)
    return {*without, *accumulate((change.bytes for change in ahead), initial=size)}


def _fewer(levels: list[Level]) -> list[Level]:
    """All, or of too many the highest, what came after it, and the last."""
    if len(levels) <= _MOST:
        return levels
    top = max(range(len(levels)), key=lambda place: levels[place].bytes)
    last = len(levels) - 1
    return [levels[place] for place in sorted({top, min(top + 1, last), last})]
