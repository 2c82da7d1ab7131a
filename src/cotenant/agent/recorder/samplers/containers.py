"""The ``containers`` table of the running boot, from the ledger."""

from typing import Any, Final

from cotenant.identity.ledger import Ledger
from cotenant.identity.rows import Row
from cotenant.schema.dimensions import CONTAINERS
from cotenant.store.segment import rows_of

_SETTLE_NS: Final = 1_000_000_000


class Containers:
    """Finds the rows that changed since they were last written: old ones cost nothing."""

    table: Final = "containers"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self._unsettled = False
        self._written: dict[object, Row] = {}

    def sample(self, now_ns: int) -> Any | None:
        """Rows that changed; None if there are none."""
        if self._ledger.version == self._version and not self._unsettled:
            return None
        self._version = self._ledger.version
        rows, self._unsettled = self._ledger.settled_rows(now_ns - _SETTLE_NS)
        # The ledger makes a new row where something changed.
        changed = [row for row in rows if self._written.get(row["cgroup_id"]) is not row]
        self._written = {row["cgroup_id"]: row for row in rows}
        return rows_of(CONTAINERS, changed) if changed else None

    def whole(self) -> Any:
        """All rows, for when those that were written before cannot be read."""
        return rows_of(CONTAINERS, list(self._written.values()))
