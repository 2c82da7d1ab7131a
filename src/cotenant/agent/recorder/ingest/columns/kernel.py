"""What an operation is called: its kernel, or in brackets what else it did."""

from itertools import groupby
from typing import Any, Final

import numpy as np

from cotenant.agent.process import Nameless, Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.eras import by_time
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.agent.recorder.processes.graphs import Graphs
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import CUDA_RECORD, ENUMS
from cotenant.schema.wire import Field

_OPS: Final = {text: number for number, text in ENUMS["cuda_op"].items()}
_LAUNCH: Final = _OPS["launch"]
_GRAPH: Final = _OPS["graph_launch"]
_MEMCPY: Final = _OPS["memcpy"]
_KNOWN_DIRECTION: Final = CUDA_RECORD.field("direction").known or 0

_KEY: Final = (
    "pid", "process_start_ns", "handle", "stub", "op", "direction", "known",
)  # fmt: skip


class KernelColumn:
    """Names every row; launches from what was learned of their process."""

    def __init__(self, names: KernelNames, graphs: Graphs) -> None:
        self._names = names
        self._graphs = graphs

    def needs(self, field: Field) -> Needs:
        """Who called what through what; the time for handles that meant two kernels."""
        return ["timestamp_ns"], [_KEY, ("api", "function")]

    def make(self, batch: Batch, field: Field) -> Any:
        """The name; never NULL."""
        codes, distinct = batch.key(*_KEY)
        words: list[str | None] = [self._word(entry) for entry in distinct]
        return by_time(batch, codes, words, lambda code: self._eras(distinct[code]))

    def nameless(self, batch: Batch) -> list[Nameless]:
        """Kernels of the batch that nobody has named, and that nobody has looked for."""
        _, distinct = batch.key(*_KEY)
        found = []
        for entry in distinct[distinct["op"] == _LAUNCH]:
            one = Nameless(Process.of(entry), int(entry["handle"]), int(entry["stub"]))
            if not self._names.eras(*one) and not self._names.asked(one):
                found.append(one)
        return found

    def _word(self, entry: np.void) -> str:
        op = int(entry["op"])
        if op == _LAUNCH:
            return self._names.name(Process.of(entry), int(entry["handle"]), int(entry["stub"]))
        if op == _MEMCPY:
            known = int(entry["known"]) >> _KNOWN_DIRECTION & 1
            way = ENUMS["cuda_direction"].get(int(entry["direction"]), "?") if known else "?"
            return f"[memcpy {way}]"
        if op == _GRAPH:
            return self._graph_eras(entry)[-1][1]
        return f"[{ENUMS['cuda_op'].get(op, '?')}]"

    def _eras(self, entry: np.void) -> list[tuple[int, str | None]]:
        """Handles that were unloaded and used again: their rows are named by time."""
        if int(entry["op"]) == _GRAPH:
            return list(self._graph_eras(entry))
        if int(entry["op"]) != _LAUNCH:
            return []
        process, handle, stub = Process.of(entry), int(entry["handle"]), int(entry["stub"])
        eras = self._names.eras(process, handle, stub)
        if len(eras) < 2:
            return []
        nameless = self._names.unknown(process, handle, stub)
        return [
            (since, self._names.readable(process, name) if name else nameless)
            for since, name in eras
        ]

    def _graph_eras(self, entry: np.void) -> list[tuple[int, str]]:
        """What the handle was called: versions of one graph have one name."""
        versions = self._graphs.versions(Process.of(entry), int(entry["handle"]))
        return [
            (first.since_ns, f"[graph {name}]")
            for name, (first, *_) in groupby(versions, key=lambda version: version.name)
        ]


class FunctionColumn:
    """A probed function's number, as its name."""

    def needs(self, field: Field) -> Needs:
        """The number."""
        return [], [(field.name,)]

    def make(self, batch: Batch, field: Field) -> Any:
        """The symbol that was called."""
        codes, distinct = batch.key(field.name)
        return batch.spread(codes, [_symbol(int(number)) for number in distinct[field.name]])


def _symbol(number: int) -> str | None:
    function = BY_ID.get(number)
    return function.symbol if function else None
