"""Traces of PyTorch's profiler (Kineto): Chrome's trace format, with its own categories."""

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, Final

from cotenant.profiles.json_stream import JsonStream
from cotenant.profiles.operations import (
    COPY,
    LAUNCH,
    MOST_CORRELATION,
    MOST_NS,
    SET,
    Collector,
    Operations,
    ProfileError,
    queues,
    shape_of,
)

SCHEMA: Final = 1  # The version of the trace that Kineto has written since PyTorch 1.8.
_CALLS: Final = frozenset({"cuda_runtime", "cuda_driver"})
_DEVICE: Final = {"kernel": LAUNCH, "gpu_memcpy": COPY, "gpu_memset": SET}
_BASE: Final = "baseTimeNanoseconds"
_GZIP: Final = b"\x1f\x8b"


class TorchTrace:
    """Reads one trace."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._collector = Collector(self._path)
        self._process: str | None = None
        self._base = 0
        self._is_kineto = False

    def read(self) -> Operations:
        """The operations, on the trace's clock: UTC, as well as the profiler knew it."""
        try:
            with Path(self._path).open("rb") as plain:
                packed = plain.read(2) == _GZIP
                plain.seek(0)
                source = gzip.GzipFile(fileobj=plain) if packed else plain
                for key, value in JsonStream(source, self._path, "traceEvents").pairs():
                    self._pair(key, value)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ProfileError(f"{self._path} is damaged: {error}") from error
        if not self._is_kineto:
            raise ProfileError(f"{self._path} is no trace of PyTorch's profiler: no schemaVersion")
        found = self._collector.operations()
        found.called[:] += self._base
        return found

    def _pair(self, key: str, value: Any) -> None:
        if key == "traceEvents" and isinstance(value, dict):
            self._event(value)
        elif key == "schemaVersion":
            if value != SCHEMA:
                raise ProfileError(
                    f"{self._path} has version {_shown(value)} of PyTorch's trace; "
                    f"{SCHEMA} is known"
                )
            self._is_kineto = True
        elif key == _BASE:
            if not isinstance(value, int) or not 0 <= value < MOST_NS:
                raise ProfileError(f"{self._path} has no time as its {_BASE}")
            self._base = value

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("cat")
        if event.get("ph") != "X" or not isinstance(kind, str):
            return
        if kind in _CALLS:
            self._call(event)
        elif kind in _DEVICE:
            self._ran(event, _DEVICE[kind])

    def _call(self, event: dict[str, Any]) -> None:
        api = str(event.get("name"))[:256]
        correlation = _number(_arguments(event).get("correlation"))
        began = _nanoseconds(event.get("ts"))
        if correlation is None or began is None or not queues(api):
            return
        process = str(event.get("pid"))[:64]
        if self._process not in (None, process):
            # Its operations name their GPU, not their process.
            raise ProfileError(f"{self._path} has several processes; import each one's own trace")
        self._process = process
        thread = str(event.get("tid"))[:64]
        self._collector.call("", thread, correlation, began, graph="GraphLaunch" in api)

    def _ran(self, event: dict[str, Any], kind: int) -> None:
        arguments = _arguments(event)
        correlation = _number(arguments.get("correlation"))
        start, took = _nanoseconds(event.get("ts")), _nanoseconds(event.get("dur"))
        if correlation is None or start is None or took is None:
            return
        if kind == LAUNCH:
            grid, block = _sides(arguments.get("grid")), _sides(arguments.get("block"))
            if grid is None or block is None:
                return
            name = self._collector.name(str(event.get("name")))
            what = kind, name, math.prod((*grid, *block)) % MOST_NS, shape_of((*grid, *block))
        else:
            name = self._collector.name(_direction(str(event.get("name"))))
            what = kind, name, _number(arguments.get("bytes")) or 0, 0
        self._collector.ran("", correlation, what, start, start + took)


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _direction(name: str) -> str:
    """``HtoD`` of ``Memcpy HtoD (Pinned -> Device)``."""
    words = name.split()
    return words[1][:8] if len(words) > 1 and words[0] == "Memcpy" else ""


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST_CORRELATION:
        return value
    return None


def _sides(value: Any) -> tuple[int, int, int] | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    sides = [_number(side) for side in value]
    x, y, z = sides
    return None if x is None or y is None or z is None else (x, y, z)


def _nanoseconds(us: Any) -> int | None:
    """Microseconds with decimals, exactly to the nanosecond up to what a float holds."""
    if isinstance(us, bool) or not isinstance(us, int | float):
        return None
    if not math.isfinite(us) or not 0 <= us < MOST_NS / 1000:
        return None
    whole = int(us)
    return whole * 1000 + round((us - whole) * 1000)


def _shown(value: Any) -> str:
    return str(value)[:20]
