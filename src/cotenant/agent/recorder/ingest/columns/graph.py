"""The CUDA graph that a row launched, in the version it then had."""

from typing import Any, Final

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.eras import Eras, by_time
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.agent.recorder.processes.graphs import Graphs
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field

_GRAPH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "graph_launch")
_KEY: Final = ("pid", "process_start_ns", "handle", "op")


class GraphColumn:
    """Joins graph_kernels; NULL for all but graph launches."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs

    def needs(self, field: Field) -> Needs:
        """Who launched which graph, and when."""
        return ["timestamp_ns"], [_KEY]

    def make(self, batch: Batch, field: Field) -> Any:
        """The graph's version."""
        codes, distinct = batch.key(*_KEY)
        words: list[str | None] = [None] * len(distinct)
        changed: dict[int, Eras] = {}
        for code in np.flatnonzero(distinct["op"] == _GRAPH).tolist():
            eras = self._eras(*distinct[code].tolist())
            words[code] = eras[-1][1] if eras else None
            if len(eras) > 1:
                changed[code] = eras
        return by_time(batch, codes, words, changed)

    def _eras(self, pid: int, start_ns: int, handle: int, _: int) -> Eras:
        versions = self._graphs.versions(Process(pid, start_ns), handle)
        return [(version.since_ns, version.graph) for version in versions]
