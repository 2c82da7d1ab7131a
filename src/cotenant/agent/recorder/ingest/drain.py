"""The rings out of the kernel, in a thread that never waits for a disk.

Rings have no common order, and every fact has to come before the rows that depend on it. So a pass
notes the position of the rows' producers, takes all facts, then takes rows up to that position.
Names have a ring of their own, and so have cgroups and processes; all facts are merged by time.
Those younger than the start of the pass wait for the next one, since one ring is read before the
other.
"""

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from cotenant._native import Ring
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns import Columns, Maker
from cotenant.agent.recorder.ingest.fact_budget import FactBudget
from cotenant.probes.programs import facts_ring_bytes, names_ring_bytes
from cotenant.schema.events import RECORDS
from cotenant.schema.kinds import EVENT_KIND, FACT_KIND, FACT_TIME

# Between two looks at how much is waiting; shorter where more than an eighth of the ring came in
# that time, because until the next pass a tenant can send no more than its quota of the ring. A
# pass takes much longer: where less than 1/256 of each ring is waiting, it follows after a few.
_PAUSE_S: Final = 0.02
_PAUSE_LEAST_S: Final = 0.002
_LOOKS: Final = 5
# While storing is slow, rows beyond this are left in the ring: there they are shed by tenant, and
# counted. What is taken at once must fit into what the store holds, or it is lost for everybody.
_HELD_BYTES_MAX: Final = 64 << 20

Rows = list[tuple[Columns, Batch]]


def open_drain(maps: Mapping[str, int], events_bytes: int, makers: Mapping[str, Maker]) -> "Drain":
    """A drain of the kernel's rings for every declared kind of event."""
    drain = Drain(
        (maps["events"], events_bytes),
        (maps["names"], names_ring_bytes()),
        (maps["identities"], facts_ring_bytes()),
        (maps["facts"], facts_ring_bytes()),
    )
    for kind, record in RECORDS.items():
        drain.expect(kind, Columns(record, makers))
    return drain


class Drain:
    """Empties the rings and keeps what it found until it is taken."""

    def __init__(
        self,
        events: tuple[int, int],
        names: tuple[int, int],
        identities: tuple[int, int],
        facts: tuple[int, int],
    ) -> None:
        self._events = Ring(*events, EVENT_KIND)
        self._names = Ring(*names, FACT_KIND)
        self._identities = Ring(*identities, FACT_KIND)
        self._facts = Ring(*facts, FACT_KIND)
        self.budget = FactBudget()
        self._young: list[bytes] = []
        self._kept: list[bytes] = []
        self._back: Rows = []
        self._eighth = events[1] // 8
        self._pause_s = _PAUSE_S
        self._held = 0  # Bytes that drained rows took up in the ring.
        self._kinds: dict[int, Columns] = {}
        self._lock = threading.Lock()
        self._stop = -1  # Readable when the thread is to end.
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)

    def expect(self, kind: int, columns: Columns) -> None:
        """Records of this kind are to become these columns; before the start."""
        columns.plan.expect(self._events, kind)
        self._kinds[kind] = columns

    def start(self) -> None:
        """Begin to drain in the background."""
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and drain what is left."""
        self._stopped = True
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._stop)
        self._held = 0
        self._once()
        self.budget.patience_s = 0.0
        self._kept += self._young
        self._young = []

    def catch_up(self) -> None:
        """Drain what is in the rings now."""
        with self._lock:
            self._once()

    def _run(self) -> None:
        others = (self._names, self._identities, self._facts)
        while not self._stopped:
            with self._lock:
                moved = self._once()
            self._events.pause(others, self._stop, self._pause_ms(moved), _LOOKS)

    def _pause_ms(self, moved: int) -> int:
        """Until about an eighth of the ring is full, at the rate since the last pass."""
        due = self._pause_s * self._eighth / max(moved, 1)
        self._pause_s = min(max(due, _PAUSE_LEAST_S), _PAUSE_S)
        return round(1e3 * self._pause_s)

    def _once(self) -> int:
        limit = self._events.position()
        waiting = self._names.waiting()
        self._take_facts()
        if self._held > _HELD_BYTES_MAX:
            return waiting
        moved = self._events.drain(limit)
        self._held += moved
        return moved + waiting

    def _take_facts(self) -> None:
        began_ns = time.monotonic_ns()
        told = [*self._names.records(), *self._facts.records()]
        taken = [*self.budget.admit(told, began_ns / 1e9), *self._identities.records()]
        found = sorted(taken + self._young, key=_time_of)
        old = bisect_left(found, began_ns, key=_time_of)
        self._kept += found[:old]
        self._young = found[old:]

    def strays(self) -> int:
        """Records of no declared kind."""
        return self._events.strays()

    def take(self) -> tuple[list[bytes], Rows]:
        """Facts in order, and the rows of each kind that has any."""
        with self._lock:
            facts, self._kept = self._kept, []
            back, self._back = self._back, []
            self._held = 0
            taken = [(columns, self._events.take(kind)) for kind, columns in self._kinds.items()]
        return facts, [*back, *((c, c.plan.read(raw)) for c, raw in taken if raw[0])]

    def put_back(self, facts: list[bytes], rows: Rows) -> None:
        """What was taken, to be taken again before all else."""
        with self._lock:
            self._kept = facts + self._kept
            self._back = rows + self._back


def _time_of(fact: bytes) -> int:
    """When it was told."""
    return int.from_bytes(fact[FACT_TIME], "little")
