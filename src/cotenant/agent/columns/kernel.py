"""What an operation is called: its kernel, or in brackets what else it did."""

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cotenant.agent.batch import Batch
from cotenant.agent.columns.plain import Needs
from cotenant.agent.kernel_names import Era, KernelNames, Process
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field

_LAUNCH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "launch")
_GRAPH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "graph_launch")
_MEMCPY: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "memcpy")
_KNOWN_DIRECTION: Final = 4


class _Asked(NamedTuple):
    """What a row's name depends on, besides the time; the fields of the wire that tell it."""

    pid: int
    process_start_ns: int
    handle: int
    stub: int
    op: int
    direction: int
    known: int

    @property
    def process(self) -> Process:
        return Process(self.pid, self.process_start_ns)


class Kernel:
    """Names every row; launches from what was learned of their process."""

    def __init__(self, names: KernelNames) -> None:
        self._names = names

    def needs(self, field: Field) -> Needs:
        """Who called what; the time for handles that meant two kernels."""
        return ["timestamp_ns"], [_Asked._fields]

    def make(self, batch: Batch, field: Field) -> Any:
        """The name; never NULL."""
        codes, distinct = batch.key(*_Asked._fields)
        words: list[str] = []
        renamed: list[tuple[int, _Asked, list[Era]]] = []
        for code, entry in enumerate(distinct.tolist()):
            asked = _Asked._make(entry)
            if asked.op != _LAUNCH:
                words.append(_word(asked))
                continue
            eras = self._names.eras(asked.process, asked.handle, asked.stub)
            if len(eras) > 1:
                renamed.append((code, asked, eras))
            words.append(eras[-1][1] if eras and eras[-1][1] else self._nameless(asked))
        if renamed:
            codes = self._by_time(batch, codes, renamed, words)
        return batch.spread(codes, words)

    def _nameless(self, asked: _Asked) -> str:
        return self._names.unknown(asked.process, asked.handle, asked.stub)

    def _by_time(
        self,
        batch: Batch,
        codes: npt.NDArray[np.int32],
        renamed: list[tuple[int, _Asked, list[Era]]],
        words: list[str],
    ) -> npt.NDArray[np.int32]:
        """Handles that were unloaded and used again: their rows are named by time."""
        times = batch.plain("timestamp_ns")
        codes = codes.copy()
        for code, asked, eras in renamed:
            rows = np.flatnonzero(codes == code)
            starts = np.array([start for start, _ in eras[1:]], np.uint64)
            era = np.searchsorted(starts, times[rows], side="right")
            codes[rows] = len(words) + era
            words += [name or self._nameless(asked) for _, name in eras]
        return codes


def _word(asked: _Asked) -> str:
    """What is no launch, in brackets."""
    if asked.op == _MEMCPY:
        known = asked.known >> _KNOWN_DIRECTION & 1
        return f"[memcpy {ENUMS['cuda_direction'].get(asked.direction, '?') if known else '?'}]"
    if asked.op == _GRAPH:
        return f"[graph {asked.handle:#x}]"
    return f"[{ENUMS['cuda_op'].get(asked.op, '?')}]"


class FunctionName:
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
