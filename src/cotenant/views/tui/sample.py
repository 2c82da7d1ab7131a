"""One look at a store: what each tenant did in its last seconds."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.errors import StoreError
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.screens import activity
from cotenant.query.screens.interference import PAIRS_SQL
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes
from cotenant.views import text
from cotenant.views.tui.slowed import slowed_words
from cotenant.views.window import STILL_NS

_LATELY_NS: Final = 120_000_000_000  # Long enough for work alone and beside others.
SECOND_NS: Final = 1_000_000_000
_LIMITS: Final = QueryLimits(seconds=20.0, memory_bytes=1 << 30)


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows, of which time, by which SQL, and what they lack."""

    rows: list[dict[str, Any]]
    sql: str
    start_ns: int
    end_ns: int
    live: bool
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampleSource:
    """Where samples come from."""

    store: Path
    tenant: str | None = None
    seconds: float = 10.0
    nodes: tuple[str, ...] = ()  # Empty: all.

    def window(self) -> tuple[int, int, bool]:
        """From when to when to look, and whether that is now."""
        check_readable(self.store)
        segments = Nodes(self.store, self.nodes).segments()
        starts = [s.min_ns for s in segments if s.min_ns is not None]
        ends = [s.max_ns for s in segments if s.max_ns is not None]
        if not starts or not ends:
            raise StoreError(f"nothing was recorded in {self.store} yet; start `cotenant record`")
        end = max(ends) + 1
        start = max(min(starts), end - round(self.seconds * SECOND_NS))
        return start, end, time.time_ns() - end < STILL_NS

    def take(self) -> Sample:
        """What every tenant did."""
        start, end, live = self.window()
        sql = activity.tenants_sql(start, end, gpu_use=True)
        with self._session(start, end) as session:
            answer = session.ask(sql)
        lacks = tuple(text.incompleteness(answer.standing))
        return Sample(answer.rows(), sql, start, end, live, lacks)

    def slowed(self) -> str:
        """Who slowed whom lately; empty where one tenant's rows say nothing of others."""
        if self.tenant is not None:
            return ""
        start, end, _ = self.window()
        with self._session(min(start, end - _LATELY_NS), end) as session:
            return slowed_words(session.ask(PAIRS_SQL).rows())

    def detail(self, tenant: str) -> tuple[Sample, Sample]:
        """What one tenant's time went to: in CUDA, and in NCCL."""
        start, end, live = self.window()
        asked = (
            activity.kernels_sql(start, end, tenant=tenant, limit=50),
            activity.collectives_sql(start, end, tenant=tenant, limit=50),
        )
        with self._session(start, end) as session:
            answers = [session.ask(sql) for sql in asked]
        kernels, collectives = (
            Sample(a.rows(), sql, start, end, live, tuple(text.incompleteness(a.standing)))
            for a, sql in zip(answers, asked, strict=True)
        )
        return kernels, collectives

    def _session(self, start_ns: int, end_ns: int) -> Session:
        return Session(
            self.store,
            tenant=self.tenant,
            from_ns=start_ns,
            to_ns=end_ns,
            nodes=self.nodes,
            limits=_LIMITS,
        )
