"""What an operation is called: its kernel, or in brackets what else it did."""

from functools import cache
from itertools import groupby
from typing import Any, Final

from cotenant.agent.process import Nameless, Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.eras import Eras, by_time
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
        first_ns = int(batch.plain("timestamp_ns").min())
        # A tenant may launch another kernel each time: this is done once for each.
        process_of = cache(Process)
        graph_eras = cache(self._graph_eras)
        words: list[str | None] = []
        changed: dict[int, Eras] = {}
        keys = distinct.tolist()

        def text(code: int, name: str) -> str:
            pid, start_ns, handle, stub, op, *_ = keys[code]
            if op == _GRAPH:
                return name
            return self._launched(process_of(pid, start_ns), handle, stub, name)

        for pid, start_ns, handle, stub, op, direction, known in keys:
            eras: Eras = ()
            if op == _LAUNCH:
                eras = self._names.eras(process_of(pid, start_ns), handle, stub)
            elif op == _GRAPH:
                eras = graph_eras(process_of(pid, start_ns), handle)
            if len(eras) > 1 and eras[-1][0] > first_ns:
                changed[len(words)] = eras
                words.append(None)
            elif op in (_LAUNCH, _GRAPH):
                words.append(text(len(words), eras[-1][1] if eras else ""))
            else:
                words.append(_plain(op, direction if known >> _KNOWN_DIRECTION & 1 else None))
        return by_time(batch, codes, words, changed, text)

    def nameless(self, batch: Batch) -> list[Nameless]:
        """Kernels of the batch that nobody has named, and that nobody has looked for."""
        _, distinct = batch.key(*_KEY)
        process_of = cache(Process)
        found = []
        for pid, start_ns, handle, stub, *_ in distinct[distinct["op"] == _LAUNCH].tolist():
            one = Nameless(process_of(pid, start_ns), handle, stub)
            if not self._names.eras(*one) and not self._names.asked(one):
                found.append(one)
        return found

    def _launched(self, process: Process, handle: int, stub: int, name: str) -> str:
        """What rows call a kernel of this name, or one that has none."""
        if name:
            return self._names.readable(process, name)
        return self._names.unknown(process, handle, stub)

    def _graph_eras(self, process: Process, handle: int) -> list[tuple[int, str]]:
        """What the handle was called: versions of one graph have one name."""
        versions = self._graphs.versions(process, handle)
        return [
            (first.since_ns, f"[graph {name}]")
            for name, (first, *_) in groupby(versions, key=lambda version: version.name)
        ]


@cache
def _plain(op: int, direction: int | None) -> str:
    """What is no kernel, in brackets."""
    if op == _MEMCPY:
        way = "?" if direction is None else ENUMS["cuda_direction"].get(direction, "?")
        return f"[memcpy {way}]"
    return f"[{ENUMS['cuda_op'].get(op, '?')}]"


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
