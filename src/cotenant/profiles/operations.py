"""What a profiler's file says of each operation: the call that queued it, and its device time."""

from array import array
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cotenant.errors import UsageError
from cotenant.profiles.kernel_names import base_name

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_OPERATIONS: Final = 2_000_000  # A file with more is refused: they are held in memory.
_MOST_CALLS: Final = 4_000_000
MOST_NAMES: Final = 100_000
_MOST_PROCESSES: Final = 256
_MOST_THREADS: Final = 4_096
MOST_CORRELATION: Final = 1 << 40
MOST_NS: Final = 1 << 61
LAUNCH, COPY, SET, GRAPH = range(4)
KINDS: Final = ("launch", "memcpy", "memset", "graph_launch")
_MULTIPLIER: Final = 1_000_003
_MASK: Final = (1 << 40) - 1  # Times the multiplier it is within 64 bits.


class ProfileError(UsageError):
    """The file is no profile that can be imported."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of a file, in order of the calls that queued them."""

    process: Ints  # Numbers for the file's processes and threads: its ids may be of a container.
    thread: Ints
    called: Ints  # When the call began, on the file's clock.
    kind: Ints  # Of KINDS.
    name: Ints  # A place in names: of a kernel, or the direction of a copy.
    size: Ints  # Threads of a launch, bytes of a copy.
    shape: Ints  # A hash of grid and block.
    ran: Ints  # When it began on the device.
    gpu_ns: Ints  # The length of the union of what it did there.
    names: list[str]

    def __len__(self) -> int:
        return len(self.called)

    def only(self, chosen: Bools) -> "Operations":
        """Those that are chosen."""
        columns = {name: getattr(self, name)[chosen] for name in _COLUMNS}
        return Operations(**columns, names=self.names)


_COLUMNS: Final = ("process", "thread", "called", "kind", "name", "size", "shape", "ran", "gpu_ns")


def shape_of(sides: Iterable[Any]) -> Any:
    """A number for the sides of a grid and a block; of arrays an array."""
    number: Any = 0
    for side in sides:
        number = (number * _MULTIPLIER + side) & _MASK
    return number


def queues(api: str) -> bool:
    """Whether this function of CUDA may queue an operation."""
    return any(part in api for part in ("Launch", "Memcpy", "Memset"))


class Collector:
    """Collects calls and device intervals in any order; process and correlation join them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: dict[Hashable, int] = {}
        self._processes: dict[Hashable, int] = {}
        self._threads: dict[Hashable, int] = {}
        self._calls = [array("q") for _ in range(4)]
        self._ran = [array("q") for _ in range(7)]

    def name(self, text: str) -> int:
        """The number of a kernel's name, without its template arguments and parameters."""
        return self._number(self._names, base_name(text), MOST_NAMES, "names of kernels")

    def _number(self, known: dict[Hashable, int], key: Hashable, most: int, what: str) -> int:
        if key not in known and len(known) >= most:
            raise ProfileError(f"{self._path} has more than {most:,} {what}")
        return known.setdefault(key, len(known))

    @property
    def processes(self) -> int:
        """How many processes made calls."""
        return len(self._processes)

    def call(
        self, process: Hashable, thread: Hashable, correlation: int, began: int, *, graph: bool
    ) -> None:
        """A call on the host that may have queued something."""
        if len(self._calls[0]) >= _MOST_CALLS:
            raise ProfileError(
                f"{self._path} has more than {_MOST_CALLS:,} calls; profile a shorter time"
            )
        place = self._number(self._processes, process, _MOST_PROCESSES, "processes")
        of_thread = self._number(self._threads, (process, thread), _MOST_THREADS, "threads")
        values = place * MOST_CORRELATION + correlation, of_thread, began, graph
        for column, value in zip(self._calls, values, strict=True):
            column.append(value)

    def ran(
        self,
        process: Hashable,
        correlation: int,
        what: tuple[int, int, int, int],
        start: int,
        end: int,
    ) -> None:
        """What the device did: its kind, name, size and shape, and when."""
        if len(self._ran[0]) >= MOST_OPERATIONS:
            raise ProfileError(
                f"{self._path} has more than {MOST_OPERATIONS:,} operations; profile a shorter time"
            )
        place = self._number(self._processes, process, _MOST_PROCESSES, "processes")
        values = place * MOST_CORRELATION + correlation, *what, start, max(end, start)
        for column, value in zip(self._ran, values, strict=True):
            column.append(value)

    def operations(self) -> Operations:
        """Each call that queued something, with what the device did for it."""
        if not self._ran[0]:
            raise ProfileError(f"{self._path} has no operations of a GPU; profile CUDA, too")
        calls, ran = _taken(self._calls), _taken(self._ran)
        calls, ran = _outermost(calls), _grouped(ran)
        at = np.minimum(np.searchsorted(calls[0], ran[0]), max(len(calls[0]) - 1, 0))
        there = calls[0][at] == ran[0] if len(calls[0]) else np.zeros(len(ran[0]), bool)
        if not there.any():
            raise ProfileError(
                f"{self._path} lacks the calls that launched its kernels; profile CUDA's API, too"
            )
        key, thread, called, graph = (column[at[there]] for column in calls)
        _, kind, name, size, shape, start, gpu_ns = (column[there] for column in ran)
        order = np.argsort(called, kind="stable")
        columns = (
            key // MOST_CORRELATION, thread, called, np.where(graph == 1, GRAPH, kind),
            np.where(graph == 1, -1, name), np.where(graph == 1, 0, size),
            np.where(graph == 1, 0, shape), start, gpu_ns,
        )  # fmt: skip
        named = zip(_COLUMNS, columns, strict=True)
        return Operations(
            **{name: column[order] for name, column in named},
            names=[str(name) for name in self._names],
        )


def _taken(columns: "list[array[int]]") -> list[Ints]:
    """The columns as arrays; the lists are emptied."""
    found = [np.array(column, np.int64) for column in columns]
    for column in columns:
        del column[:]
    return found


def _outermost(calls: list[Ints]) -> list[Ints]:
    """Of calls with one number that which began first; in order of the number."""
    order = np.lexsort((calls[2], calls[0]))
    calls = [column[order] for column in calls]
    first = np.append(True, np.diff(calls[0]) != 0)[: len(order)]
    return [column[first] for column in calls]


def _grouped(ran: list[Ints]) -> list[Ints]:
    """Per call the first thing it queued, with the bytes of all, and the length of their union."""
    order = np.lexsort((ran[5], ran[0]))
    key, kind, name, size, shape, start, end = (column[order] for column in ran)
    new = np.append(True, np.diff(key) != 0)
    first = np.flatnonzero(new)
    if len(first) == len(key):
        return [key, kind, name, size, shape, start, end - start]
    # Until when the device was at it before each interval; calls do not know of each other.
    until = end.copy()
    for place in np.flatnonzero(~new).tolist():
        until[place] = max(until[place], until[place - 1])
    before = np.where(new, start, np.roll(until, 1))
    length = np.maximum(end - np.maximum(start, before), 0)
    bytes_ = np.where(kind == LAUNCH, np.where(new, size, 0), size)
    sums = (np.add.reduceat(column, first) for column in (bytes_, length))
    total, gpu_ns = sums
    return [key[first], kind[first], name[first], total, shape[first], start[first], gpu_ns]
