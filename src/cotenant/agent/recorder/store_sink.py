"""The recorder's side of the store: rows go in, and every row is accounted for.

A disk that is full or read-only does not end a recording. Rows wait in memory up to a bound, then
they are given up and counted; the seal is tried again until it works. A store that is gone ends it.
"""

import time
from typing import Any, Final

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns import Columns
from cotenant.agent.recorder.ingest.columns.owner import OWNER
from cotenant.agent.recorder.samplers.losses import Losses, Tally
from cotenant.errors import StoreError
from cotenant.schema.dimensions import LOSSES
from cotenant.store.writer import MAX_BUFFERED_BYTES, StoreWriter

# Events may fill this much: the rest is for the rows that count what was lost.
_EVENTS_BYTES: Final = MAX_BUFFERED_BYTES * 3 // 4
_HELD_BYTES_MAX: Final = 8 << 20  # An hour of seconds in which everybody loses something.
_RETRY_S: Final = 2.0


def tallies(columns: Columns, batch: Batch) -> list[tuple[Tally, int]]:
    """How many rows of a batch each owner has."""
    distinct, counts = batch.tally(*OWNER)
    return [
        (Tally(columns.family, *entry), count)
        for entry, count in zip(distinct.tolist(), counts, strict=True)
    ]


class StoreSink:
    """Hands rows to the store and counts what became of them."""

    def __init__(self, writer: StoreWriter, losses: Losses) -> None:
        self._writer = writer
        self._losses = losses
        self._retry_at = 0.0
        self._held: list[Any] = []  # Rows of ``losses`` for which there was no room.
        self._held_bytes = 0
        self._others = 0  # Rows of event tables that did not come out of the ring.
        self.trouble: str | None = None  # Why rows cannot be written, while they cannot.
        self.miscounted = 0  # Rows sealed minus rows handed over; 0 unless there is a bug.
        self.untold = 0  # Rows of samplers for which there was no room.

    def keep(self, columns: Columns, batch: Batch, rows: Any) -> bool:
        """Rows out of the ring; false if they had to be given up."""
        whose = tallies(columns, batch)
        try:
            if self._writer.buffered_bytes > _EVENTS_BYTES:
                raise StoreError("too many rows are waiting to be written")
            self._writer.append(columns.table, rows)
        except StoreError:
            self._losses.gave_up(whose)
            return False
        self._losses.appended(whose)
        return True

    def append(self, table: str, rows: Any) -> None:
        """Rows of our own making."""
        try:
            self._writer.append(table, rows)
        except StoreError:
            self._hold_back(table, rows)
            return
        if table.endswith("_events"):
            self._others += rows.num_rows

    def _hold_back(self, table: str, rows: Any) -> None:
        """What says that something is missing is kept apart until there is room for it."""
        if table == LOSSES.name and self._held_bytes + rows.nbytes <= _HELD_BYTES_MAX:
            self._held.append(rows)
            self._held_bytes += rows.nbytes
        else:
            self.untold += rows.num_rows

    def _hand_over(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        for rows in held:
            self.append(LOSSES.name, rows)

    def seal(self, now_ns: int, *, at_once: bool = False) -> bool:
        """Make what was appended visible; false, and tried again later, if that fails."""
        if not at_once and time.monotonic() < self._retry_at:
            return False
        try:
            sealed = self._writer.seal(now_ns)
        except StoreError as error:
            if not self._writer.root.is_dir():
                raise StoreError(f"{self._writer.root} is gone; recording stops") from error
            self.trouble = str(error)
            self._retry_at = time.monotonic() + _RETRY_S
            return False
        self.trouble = None
        kept = sum(n for table, n in sealed.items() if table.endswith("_events"))
        self.miscounted += kept - self._others - sum(self._losses.waiting.values())
        self._others = 0
        self._losses.sealed()
        if self._held:
            self._hand_over()
            return self.seal(now_ns, at_once=True)
        return True
