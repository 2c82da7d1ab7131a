"""A store of any size, made of ring records by the agent's own drain.

Eight processes of four tenants share a GPU. Each launches one of 50,000 mixes of 2,000 kernels,
waits for it, and launches the next; 100,000 calls a second in all, or fewer with pauses in between.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))
from cotenant.store.compaction import Compactor
from tests.virtual.rings import OFFSET_NS, WIRE, VirtualRecorder, call

SECOND: Final = 1_000_000_000
PROCESSES: Final = 8
TENANTS: Final = 4
KERNELS: Final = 2_000
MIXES: Final = 50_000
ROWS_A_SECOND: Final = 100_000
_STEP_NS: Final = 60_000  # Between two launches of a process.
_WAIT_NS: Final = 700_000
_SHAPES: Final = np.array([128, 4_096, 65_536, 1_048_576])

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mixes:
    """What may be launched at once: each a slice of ``kernel``."""

    start: Ints
    length: Ints
    kernel: Ints

    @classmethod
    def drawn(cls, rng: np.random.Generator, mixes: int) -> "Mixes":
        """Mostly a few common kernels, in many combinations."""
        length = rng.integers(8, 48, mixes)
        kernel = np.minimum(rng.zipf(1.2, int(length.sum())) - 1, KERNELS - 1)
        kernel[:KERNELS] = np.arange(KERNELS)
        return cls(np.cumsum(length) - length, length, kernel)

    def calls(self, chosen: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Kernels of these mixes one after the other, each mix followed by a wait (-1)."""
        length = self.length[chosen] + 1
        offset = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
        waits = offset == np.repeat(length - 1, length)
        at = np.repeat(self.start[chosen], length) + np.where(waits, 0, offset)
        return np.where(waits, -1, self.kernel[at]), waits


def _template(symbol: str, **more: Any) -> Any:
    return np.frombuffer(call(symbol, 0, **more), WIRE)[0]


def _records(
    process: int, kernel: Ints, waits: NDArray[np.bool_], at_ns: int, slower: float
) -> tuple[Any, Ints]:
    """Ring records of one process, from a time on, and when each call returns."""
    about = {"pid": 1000 + process, "cgroup": 100 + process % TENANTS, "stream": 5}
    launch = _template("cuLaunchKernel", threads=64, **about)
    wait = _template("cuStreamSynchronize", **about)
    records = np.where(waits, wait, launch)
    took = np.where(waits, _WAIT_NS, 3_000)
    # A pause before each mix, so long that all of them take so much longer.
    pause = int((slower - 1) * (_STEP_NS + took).sum() / waits.sum())
    steps = _STEP_NS + took + pause * np.roll(waits, 1)
    records["timestamp_ns"] = at_ns + np.cumsum(steps) - took + process
    records["duration_ns"] = took
    records["handle"] = np.where(waits, 0, 0xF000 + 64 * kernel)
    records["grid_x"] = np.where(waits, 0, _SHAPES[kernel % len(_SHAPES)])
    return records, records["timestamp_ns"].astype(np.int64) + took


class Turns:
    """Which mixes a tenant launches next: each as often as any other."""

    def __init__(self, rng: np.random.Generator, mixes: int) -> None:
        self._order = rng.permutation(mixes)
        self._next = 0

    def take(self, count: int) -> Ints:
        """The next so many."""
        places = np.arange(self._next, self._next + count) % len(self._order)
        self._next += count
        return self._order[places]


def fill(root: Path, rows: int, slower: float = 1.0, kinds: int = MIXES, seed: int = 7) -> int:
    """Make the store, with launches so much slower, of so many kinds of mixes; the rows it has."""
    rng = np.random.default_rng(seed)
    mixes = Mixes.drawn(rng, kinds)
    turns = [Turns(rng, kinds) for _ in range(TENANTS)]
    recorder = VirtualRecorder(root, ring_bytes=1 << 26)
    for tenant in range(TENANTS):
        recorder.cgroup(100 + tenant, f"/tenant-{tenant}")
    recorder.began(0)
    clocks = [SECOND] * PROCESSES
    made, compactor = 0, Compactor(recorder.writer, share=1e9)
    each = int(ROWS_A_SECOND / slower / PROCESSES / (mixes.length.mean() + 1))
    while made < rows:
        parts = []
        for process in range(PROCESSES):
            kernel, waits = mixes.calls(turns[process % TENANTS].take(each))
            records, ended = _records(process, kernel, waits, clocks[process], slower)
            clocks[process] = int(ended[-1])
            parts.append((records, ended))
        order = np.argsort(np.concatenate([ended for _, ended in parts]), kind="stable")
        records = np.concatenate([records for records, _ in parts])[order]
        recorder.events.extend(records)
        recorder.cycle(max(clocks))
        recorder.seal()
        made += len(records)
        while compactor.step(OFFSET_NS + recorder.now_ns):
            pass
    recorder.cycle(max(clocks) + 10 * SECOND)
    recorder.finish()
    return made
