"""Which kernels each version of a CUDA graph runs."""

from functools import cache, partial
from typing import Any, Final

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns.owner import owner_of
from cotenant.agent.recorder.processes.graphs import Graphs
from cotenant.identity.ledger import Ledger
from cotenant.schema.dimensions import GRAPH_KERNELS
from cotenant.store.segment import rows_of


class GraphKernels:
    """Writes the versions that came up since the last sample."""

    table: Final = "graph_kernels"

    def __init__(self, graphs: Graphs, ledger: Ledger, clock: WallClock) -> None:
        self._graphs = graphs
        self._ledger = ledger
        self._clock = clock

    def sample(self, now_ns: int) -> Any | None:
        """A row for each kernel of each new version; None if there are none."""
        rows = self._graphs.take_rows()
        owner = cache(partial(owner_of, self._ledger))
        for row in rows:
            row["cgroup_id"] = owner(*row.pop("cgroup"))
            row["timestamp_ns"] += self._clock.offset_ns
        return rows_of(GRAPH_KERNELS, rows) if rows else None
