"""Rows for events that were counted, and are in the weight of no other row.

Of a second in which events were left out, some are after the last row that could stand for them.
They become a row for each tenant and function. It says how many they are, and their bytes: two
rows where the bytes do not divide by the events. What else could be known of them is NULL.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from cotenant.agent.recorder.ingest.rollups import Cell, Rollups, Sums
from cotenant.probes.kernel import counted
from cotenant.probes.tables import BY_ID
from cotenant.schema.families import FAMILIES
from cotenant.store.segment import rows_of

NOT_RECORDED: Final = "[not recorded]"

_SECOND: Final = 1_000_000_000
# What such a call names is one rank's part of the bytes that its row has.
_PER_RANK: Final = frozenset({"AllGather", "ReduceScatter", "AlltoAll"})
_SIZED: Final = {"io": {"read", "write", "flush", "discard"}, "net": {"send", "recv"}}


class Left(NamedTuple):
    """Events of one tenant and function that no row stands for."""

    timestamp_ns: int
    cgroup_id: int
    function: int
    events: int
    bytes: int


class NotRecorded:
    """Hands on what is left of each second: to the tables of events, and to what adds rows up."""

    def __init__(self, rollups: Rollups, take: Callable[[], Iterable[Left]]) -> None:
        self._rollups = rollups
        self._take = take
        # A weight that was taken while totals were read is in a row, and was left here as well.
        self._owed: dict[tuple[int, int], tuple[int, int]] = {}
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._gpu: list[tuple[str, Left]] = []
        self.events: Counter[str] = Counter()  # Since the recording began, by family.
        self.tables = [NotRecordedRows(name, self) for name in FAMILIES]

    def rows(self, family: str) -> list[dict[str, Any]]:
        """Rows of one family for what totals have beyond rows."""
        self._collect()
        return self._rows.pop(family, [])

    def _collect(self) -> None:
        for found in self._take():
            at = found.cgroup_id, found.function
            owed, owed_bytes = self._owed.pop(at, (0, 0))
            left = found._replace(events=found.events + owed, bytes=found.bytes + owed_bytes)
            about = counted(left.function)
            if left.events <= 0 or about is None:
                if left.events or left.bytes:
                    self._owed[at] = left.events, left.bytes
                continue
            self._keep(about[0], left)

    def take_gpu(self) -> list[tuple[str, Left]]:
        """Operations of the CUDA family since it was last asked."""
        found, self._gpu = self._gpu, []
        return found

    def _keep(self, family: str, left: Left) -> None:
        row = _row(family, left)
        sized = row["bytes"] is not None
        each, more = divmod(max(left.bytes, 0), left.events)
        for events, size in ((left.events - more, each), (more, each + 1)):
            if events:
                shown = row | {"weight": events, "bytes": size if sized else None}
                self._rows[family].append(shown)
        self.events[family] += left.events
        name = NOT_RECORDED if family == "cuda" else None
        cell = Cell(left.timestamp_ns // _SECOND, left.cgroup_id, family, row["op"], name)
        self._rollups.include(cell, Sums(left.events, bytes=left.bytes if sized else 0))
        if family == "cuda":
            self._gpu.append((row["op"], left))


class NotRecordedRows:
    """Writes the rows of one family."""

    def __init__(self, family: str, left: NotRecorded) -> None:
        self._family = family
        self._left = left
        self.table = FAMILIES[family].table.name

    def sample(self, now_ns: int) -> Any | None:
        """Rows for what was left; None if nothing was."""
        rows = self._left.rows(self._family)
        return rows_of(FAMILIES[self._family].table, rows) if rows else None


def _row(family: str, left: Left) -> dict[str, Any]:
    """What is known of these; ``bytes`` is None where their function has none."""
    known: dict[str, Any] = {"timestamp_ns": left.timestamp_ns, "cgroup_id": left.cgroup_id}
    function = BY_ID.get(left.function)
    if function is None:
        _, op = counted(left.function) or ("", "")
        return known | {"op": op, "bytes": 0 if op in _SIZED.get(family, ()) else None}
    sized = bool(function.bytes) and function.op not in _PER_RANK
    return known | {
        "op": function.op,
        "api": function.symbol,
        "kernel_name": NOT_RECORDED,
        "direction": function.direction or None,
        "bytes": 0 if sized else None,
    }
