"""The ``containers`` table of the running boot: what changed in the ledger, into the store."""

from typing import Any, Final

from cotenant.identity.ledger import Ledger
from cotenant.identity.rows import Row
from cotenant.schema.dimensions import CONTAINERS
from cotenant.store.segment import rows_of
from cotenant.store.writer import StoreWriter

_SETTLE_NS: Final = 1_000_000_000


class Containers:
    """Writes rows that are not as they were last written, so that many old ones cost nothing."""

    def __init__(self, ledger: Ledger, writer: StoreWriter) -> None:
        self._ledger = ledger
        self._writer = writer
        self._version = -1
        self._unsettled = False
        self._written: dict[object, Row] = {}

    def write(self, now_ns: int) -> None:
        """Have the next seal show what is known now."""
        if self._ledger.version == self._version and not self._unsettled:
            return
        self._version = self._ledger.version
        rows, self._unsettled = self._ledger.settled_rows(now_ns - _SETTLE_NS)
        # The ledger makes a new row where something changed.
        changed = [row for row in rows if self._written.get(row["cgroup_id"]) is not row]
        self._written = {row["cgroup_id"]: row for row in rows}
        if changed:
            self._writer.replace("containers", rows_of(CONTAINERS, changed), whole=self._whole)

    def _whole(self) -> Any:
        return rows_of(CONTAINERS, list(self._written.values()))
