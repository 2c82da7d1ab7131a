"""The CUDA graph that a row launched, in the version it then had."""

from typing import Any, Final

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.eras import by_time
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
        eras = [self._eras(entry) for entry in distinct]
        words = [known[-1][1] if known else None for known in eras]
        return by_time(batch, codes, words, lambda code: eras[code])

    def _eras(self, entry: Any) -> list[tuple[int, str | None]]:
        if int(entry["op"]) != _GRAPH:
            return []
        process = Process.of(entry)
        versions = self._graphs.versions(process, int(entry["handle"]))
        return [(version.since_ns, version.graph) for version in versions]
