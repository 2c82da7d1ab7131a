"""From the rings to the store: facts are learned, then rows are made and kept."""

from collections.abc import Mapping

from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns.makers import makers
from cotenant.agent.recorder.ingest.drain import Drain, Rows, open_drain
from cotenant.agent.recorder.ingest.facts import Facts
from cotenant.agent.recorder.ingest.rollups import Rollups
from cotenant.agent.recorder.ingest.spans import SPANNED
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.store_sink import StoreSink
from cotenant.identity.ledger import Ledger


class Intake:
    """What came out of the rings, in the two steps between which the helper is asked."""

    def __init__(self, ledger: Ledger, gpus: GpuProcesses, clock: WallClock) -> None:
        self._makers = makers(ledger, clock) | gpus.makers()
        self._facts = Facts(ledger, gpus.names, gpus.communicators, clock)
        self._facts.add(gpus.handlers(), gpus.gone)
        self._gpus = gpus
        self._ledger = ledger
        self.events = 0  # Rows so far.

    def open(self, maps: Mapping[str, int], events_bytes: int) -> Drain:
        """The drain of the kernel's rings; it is to be started."""
        self._drain = open_drain(maps, events_bytes, self._makers)
        return self._drain

    def take(self) -> Rows:
        """Learn the facts that came; the rows that came after them."""
        facts, batches = self._drain.take()
        self._facts.take(facts)
        return batches

    def _owner(self, cgroups: bytes) -> str | None:
        v2_id, v1_id = (int.from_bytes(cgroups[at : at + 8], "little") for at in (0, 8))
        return self._ledger.outermost(v2_id, v1_id, unknown="") or None

    def keep(
        self, batches: Rows, sink: StoreSink, rollups: Rollups, blind_spots: BlindSpots
    ) -> None:
        """Make columns of the rows, and hand them to the store."""
        budget = self._drain.budget
        blind_spots.facts_left_out(budget.settle(self._owner), more=budget.waits)
        for columns, batch in batches:
            rows = columns.make(batch)
            if columns.family == SPANNED:
                self._gpus.add(batch, rows)
            if sink.keep(columns, batch, rows):
                rollups.add(columns.family, batch, rows)
                blind_spots.unnamed(rows)
            self.events += batch.rows
