"""The rows that a session sees: an interval of time, and whose they are."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cotenant.schema import Table
from cotenant.store.manifest import Segment

TIME: Final = "timestamp_ns"
_EVER_NS: Final = 1 << 62


def start_of(from_ns: int | None, to_ns: int | None, since_ns: int | None) -> int | None:
    """Where a window begins that may be given by its length: counted back from its end, or now."""
    if since_ns is None:
        return from_ns
    return (time.time_ns() if to_ns is None else to_ns) - since_ns


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that a session sees: an interval of time, and whose they are."""

    from_ns: int | None = None
    to_ns: int | None = None
    tenant_only: bool = False
    whose: str = "tenant.cgroups"  # With ``tenant_only``: the table of cgroups whose rows count.
    cgroups: tuple[int, ...] | None = None  # Rows of all others are blanked; see ``guard``.
    throughout: bool = False  # Whether a time at its ends, without a recorder, is missing.
    last_ns: int | None = None  # Of the newest row, where other sessions read other nodes.

    def bounds(self) -> dict[str, int]:
        """The interval, as parameters of a query."""
        return {"from": self.from_ns or 0, "to": _EVER_NS if self.to_ns is None else self.to_ns}

    def length_ns(self, segments: Iterable[Segment]) -> int:
        """How long it is, up to its end or that of the last row."""
        if self.from_ns is None:
            return _EVER_NS
        if self.to_ns is not None:
            return self.to_ns - self.from_ns
        if self.last_ns is not None:
            return self.last_ns - self.from_ns
        last = max((s.max_ns for s in segments if s.max_ns is not None), default=self.from_ns)
        return last - self.from_ns

    def covers(self, segment: Segment) -> bool:
        """Whether the segment may hold rows of the window."""
        if segment.min_ns is None or segment.max_ns is None:
            return True
        after = self.to_ns is not None and segment.min_ns >= self.to_ns
        before = self.from_ns is not None and segment.max_ns < self.from_ns
        return not after and not before

    def conditions(self, table: Table) -> list[str]:
        """SQL conditions on the table's rows."""
        names = {column.name for column in table.columns}
        found = []
        if TIME in names and self.from_ns is not None:
            found.append(f"{TIME} >= {self.from_ns}")
        if TIME in names and self.to_ns is not None:
            found.append(f"{TIME} < {self.to_ns}")
        if self.tenant_only and "cgroup_id" in names:
            found.append(f"cgroup_id IN (SELECT cgroup_id FROM {self.whose})")
        return found
