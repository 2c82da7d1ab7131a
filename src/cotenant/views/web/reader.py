"""The store as the page sees it: opened when asked for, and again when it comes back."""

import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from cotenant.errors import CotenantError, QuestionError, StoreError
from cotenant.query.engine.answer import Answer
from cotenant.query.engine.guard import without_paths
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.screens.activity import GPU_USE
from cotenant.query.screens.timeline import status
from cotenant.query.screens.timeline.lanes import Lane, Lanes
from cotenant.query.screens.timeline.queued import (
    many_spans,
    queued_cells,
    queued_cells_by_node,
    too_many,
)
from cotenant.query.screens.timeline.tiles import Tile, tile
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes
from cotenant.views.web.bound import opened

SECOND_NS: Final = 1_000_000_000
_KEPT_TILES: Final = 256
_FRESH_S: Final = 30.0  # A recorder that lives writes at least this often.
_LIMITS: Final = QueryLimits(seconds=60.0, rows=200_000, memory_bytes=1 << 30)


class Reader:
    """Answers the page's own questions; safe to use from threads."""

    def __init__(self, store: Path, tenant: str | None, nodes: tuple[str, ...] = ()) -> None:
        self.store = store
        self.named = nodes  # As a question about them is put; empty: all of the store.
        self._nodes = Nodes(store, nodes)
        self.tenant = tenant
        self._session: Session | None = None
        self._lanes = Lanes()
        self._lock = threading.Lock()
        self._tiles: OrderedDict[tuple[Any, ...], Tile] = OrderedDict()

    def words(self, error: CotenantError) -> str:
        """What an error says; to a tenant, not where the store lies."""
        return str(error) if self.tenant is None else without_paths(str(error), self.store)

    def session(self) -> Session:
        """The open store; StoreError in words if there is none."""
        try:
            check_readable(self.store)
        except StoreError:
            with self._lock:
                self._session = None
            raise
        with self._lock:
            if self._session is None:
                self._session = self._opened()
                self._lanes = Lanes()
                self._tiles.clear()
            return self._session

    def _opened(self, **window: int) -> Session:
        return opened(self.store, self.tenant, _LIMITS, nodes=self._nodes.names, **window)

    def ask(self, sql: str) -> Any:
        """An answer to one of our own questions."""
        return self.session().ask(sql)

    def look(self) -> None:
        """Survey the store, if that is due."""
        session = self.session()
        self._lanes.look(session)

    @property
    def lanes(self) -> Lanes:
        """Every lane so far; surveyed anew if that is due."""
        self.look()
        return self._lanes

    def lane(self, number: int) -> Lane:
        """The lane of this id; QuestionError if there is none."""
        lanes = self.lanes.all
        if not 0 <= number < len(lanes):
            raise QuestionError(f"no lane {number}; reload the page")
        return lanes[number]

    def tile(self, start_ns: int, cell_ns: int) -> Tile:
        """A tile, from memory if nothing was written or surveyed since it was made."""
        lanes, session = self.lanes, self.session()
        key = (start_ns, cell_ns, lanes.survey.number, self._nodes.stamp())
        with self._lock:
            if key in self._tiles:
                self._tiles.move_to_end(key)
                return self._tiles[key]
        made = tile(session, lanes, start_ns, cell_ns)
        with self._lock:
            self._tiles[key] = made
            while len(self._tiles) > _KEPT_TILES:
                self._tiles.popitem(last=False)
        return made

    def queued(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """When each tenant had work on a GPU, by node too where there are several.

        Values are None where there is too much to tell at once.
        """
        check_readable(self.store)
        before = max(SECOND_NS, (end_ns - start_ns) // 10)  # Work in flight was launched before.
        with self._opened(from_ns=max(start_ns - before, 0), to_ns=end_ns) as session:
            if too_many(session, start_ns, end_ns):
                return {"tenants": None, "nodes": None}
            several = len({lane.node for lane in self._lanes.all}) > 1
            nodes = queued_cells_by_node(session, start_ns, end_ns) if several else None
            return {"tenants": queued_cells(session, start_ns, end_ns), "nodes": nodes}

    def gpu_use(self, start_ns: int, end_ns: int) -> Answer | None:
        """How much of its GPUs each tenant used; None where there is too much to tell at once."""
        check_readable(self.store)
        with self._opened(from_ns=start_ns, to_ns=end_ns) as session:
            return None if many_spans(session) else session.ask(GPU_USE)

    def nodes(self) -> list[str]:
        """The nodes in sight, by name; a tenant is not told which there are."""
        return [] if self.tenant is not None else self._nodes.chosen()

    def newest_ns(self) -> int | None:
        """When the last event began."""
        return status.newest_ns(self.session())

    def version(self) -> str:
        """Differs when the store has changed."""
        return f"{hash(self._nodes.stamp()) & 0xFFFF_FFFF_FFFF:x}"

    def written_s_ago(self) -> float | None:
        """How long ago the store was last written to."""
        times = [changed_ns for _, (_, _, changed_ns) in self._nodes.stamp()]
        return (time.time_ns() - max(times)) / SECOND_NS if times else None

    def live(self) -> bool:
        """Whether a recorder is writing to it now."""
        age = self.written_s_ago()
        if age is None or age > _FRESH_S:
            return False
        return status.has_open_recording(self.session())
