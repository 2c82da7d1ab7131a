"""What an operation is called: its kernel, or in brackets what else it did."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.batch import Batch
from cotenant.agent.columns.plain import Needs
from cotenant.agent.kernel_names import KernelNames, Process
from cotenant.probes.tables import BY_ID
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field

_LAUNCH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "launch")
_GRAPH: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "graph_launch")
_MEMCPY: Final = next(n for n, text in ENUMS["cuda_op"].items() if text == "memcpy")
_KNOWN_DIRECTION: Final = 4

_KEY: Final = (
    "pid", "process_start_ns", "handle", "stub", "op", "direction", "known",
)  # fmt: skip


class Kernel:
    """Names every row; launches from what was learned of their process."""

    def __init__(self, names: KernelNames) -> None:
        self._names = names

    def needs(self, field: Field) -> Needs:
        """Who called what; the time for handles that meant two kernels."""
        return ["timestamp_ns"], [_KEY]

    def make(self, batch: Batch, field: Field) -> Any:
        """The name; never NULL."""
        codes, distinct = batch.key(*_KEY)
        words = [self._word(entry) for entry in distinct]
        codes, words = self._by_time(batch, codes, distinct, words)
        return batch.spread(codes, words)

    def _word(self, entry: np.void) -> str:
        op = int(entry["op"])
        if op == _LAUNCH:
            process = Process(int(entry["pid"]), int(entry["process_start_ns"]))
            return self._names.name(process, int(entry["handle"]), int(entry["stub"]))
        if op == _MEMCPY:
            known = int(entry["known"]) >> _KNOWN_DIRECTION & 1
            way = ENUMS["cuda_direction"].get(int(entry["direction"]), "?") if known else "?"
            return f"[memcpy {way}]"
        if op == _GRAPH:
            return f"[graph {int(entry['handle']):#x}]"
        return f"[{ENUMS['cuda_op'].get(op, '?')}]"

    def _by_time(
        self,
        batch: Batch,
        codes: npt.NDArray[np.int32],
        distinct: npt.NDArray[np.void],
        words: list[str],
    ) -> tuple[npt.NDArray[np.int32], list[str]]:
        """Handles that were unloaded and used again: their rows are named by time."""
        times = None
        for code, entry in enumerate(distinct):
            if int(entry["op"]) != _LAUNCH:
                continue
            process = Process(int(entry["pid"]), int(entry["process_start_ns"]))
            eras = self._names.eras(process, int(entry["handle"]), int(entry["stub"]))
            if len(eras) < 2:
                continue
            if times is None:
                times = batch.plain("timestamp_ns")
                codes = codes.copy()
            rows = np.flatnonzero(codes == code)
            starts = np.array([start for start, _ in eras[1:]], np.uint64)
            era = np.searchsorted(starts, times[rows], side="right")
            codes[rows] = len(words) + era
            nameless = self._names.unknown(process, int(entry["handle"]), int(entry["stub"]))
            words = [*words, *(name or nameless for _, name in eras)]
        return codes, words


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
