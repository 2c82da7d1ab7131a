"""Tables that are replaced rather than appended to: ``containers`` and ``sessions``."""

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.containers import Containers
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.identity.ledger import Ledger
from cotenant.store.writer import StoreWriter


class Snapshots:
    """Written before every seal: a row refers to no container that the store does not have."""

    def __init__(
        self, writer: StoreWriter, ledger: Ledger, session: SessionRow, clock: WallClock
    ) -> None:
        self._writer = writer
        self._containers = Containers(ledger)
        self._session = session
        self._clock = clock

    def write(self, now_ns: int) -> None:
        """Have the next seal show what is known now."""
        rows = self._containers.sample(now_ns)
        if rows is not None:
            self._writer.replace(self._containers.table, rows, whole=self._containers.whole)
        if self._session.changed:
            self._writer.replace("sessions", self._session.table(self._clock.offset_ns))
