"""The device model of the stand-in GPU, and processes that live on its clock."""

import ctypes
import heapq
import math
from collections.abc import Generator
from dataclasses import dataclass, field

from cotenant import sim

START_NS = 1_790_000_000_000_000_000  # 2026-09-21 14:13:20 UTC.
CALL_NS = 2_000  # What a launch costs its caller.

Life = Generator[tuple[str, float], None, None]


def _library():
    lib = ctypes.CDLL(str(sim.library_dir() / "libsimdevice.so"))
    double, integer, pointer = ctypes.c_double, ctypes.c_int64, ctypes.c_void_p
    lib.device_size.restype = ctypes.c_uint64
    lib.device_submit.restype = lib.device_work.restype = double
    lib.device_work.argtypes = [pointer, ctypes.c_int]
    lib.device_time_at.restype = integer
    lib.device_reset.argtypes = [pointer]
    lib.device_join.argtypes = [pointer, ctypes.c_int, double, ctypes.c_uint32]
    lib.device_advance.argtypes = [pointer, integer]
    lib.device_submit.argtypes = [pointer, ctypes.c_int, integer, double, double]
    lib.device_time_at.argtypes = [pointer, ctypes.c_int, double]
    lib.device_share.restype = double
    lib.device_share.argtypes = [pointer, ctypes.c_int]
    lib.device_take_turns.argtypes = [pointer, integer]
    return lib


@dataclass
class Process:
    """A process of one tenant: what it queues on the device, and the rows that show it."""

    gpu: "Gpu"
    tenant: str
    number: int
    rows: list[dict] = field(default_factory=list)
    true_ns: dict[str, list[float]] = field(default_factory=dict)
    ran: list[tuple[int, int]] = field(default_factory=list)  # From when to when on the device.
    queued: list[tuple[int, float, float]] = field(default_factory=list)  # When; on its own clock.
    _ends: dict[int, float] = field(default_factory=dict)
    _skew: int = 0
    done: bool = False

    @property
    def pid(self) -> int:
        return 1_000 + self.number

    @property
    def now(self) -> int:
        return self.gpu.now + self._skew

    def _row(self, op, api, name, duration, **more):
        self.rows.append(
            {
                "timestamp_ns": START_NS + self.now,
                "pid": self.pid,
                "tid": self.pid,
                "op": op,
                "api": api,
                "kernel_name": name,
                "duration_ns": int(duration),
                "result": 0,
            }
            | more
        )
        self._skew += int(duration)

    def launch(self, name, work_ns, *, blocks=64, threads=256, stream=7, **more):
        """Queue a kernel that takes ``work_ns`` alone."""
        self._queue(work_ns, stream)
        self.true_ns.setdefault(name, []).append(work_ns)
        shape = {"grid_x": blocks, "grid_y": 1, "grid_z": 1}
        shape |= {"block_x": threads, "block_y": 1, "block_z": 1, "stream": stream}
        self._row("launch", "cuLaunchKernel", name, CALL_NS, **shape, **more)

    def copy(self, direction, count, *, stream=7):
        """Queue a copy at the stand-in's speed."""
        work = 1_500 + count / 25
        self._queue(work, stream)
        name = f"[memcpy {direction}]"
        self.true_ns.setdefault(name, []).append(work)
        more = {"bytes": count, "direction": direction, "stream": stream}
        self._row("memcpy", f"cuMemcpy{direction}Async_v2", name, CALL_NS, **more)

    def _queue(self, work, stream):
        after = self._ends.get(stream, 0.0)
        self._ends[stream] = end = self.gpu.submit(self.number, work, after)
        self.queued.append((self.gpu.now, end - work, end))

    def call(self, op, name, duration, api="cuCall", **more) -> Life:
        """A call that does nothing on the device and takes so long."""
        self._row(op, api, name, duration, **more)
        yield from self.sleep(0)

    def sync(self, stream=7) -> Life:
        """Wait until what was queued on the stream is done."""
        began = self.now
        yield ("work", self._ends.get(stream, 0.0))
        ended = max(self.gpu.now, began + 500)
        self._skew = began - self.gpu.now
        self._row("sync", "cuStreamSynchronize", "[sync]", ended - began, stream=stream)
        yield from self.sleep(0)

    def sleep(self, ns) -> Life:
        """Be away for a while, on the host."""
        until = self.now + max(0, int(ns))
        if until > self.gpu.now:
            yield ("until", until)
        self._skew = 0


class Gpu:
    """One device and the processes on it, in virtual time; with a slice, they take turns."""

    def __init__(self, slice_ns: int = 0) -> None:
        self._lib = _library()
        self._memory = ctypes.create_string_buffer(self._lib.device_size())
        self._lib.device_reset(self._memory)
        self._lib.device_take_turns(self._memory, slice_ns)
        self._lives: list[tuple[Process, Life]] = []
        self.now = 0

    def process(self, tenant: str, burden: float = 1.0) -> Process:
        """A process that slows each other one by ``burden`` while both have work."""
        process = Process(self, tenant, len(self._lives))
        self._lib.device_join(self._memory, process.number, burden, process.pid)
        self._lives.append((process, iter(())))
        return process

    def live(self, process: Process, life: Life) -> None:
        """What the process does with its time."""
        self._lives[process.number] = (process, life)

    def submit(self, number: int, work: float, after: float) -> float:
        return self._lib.device_submit(self._memory, number, self.now, after, work)

    def share(self, process: Process) -> float:
        """What is the process's of the device's time, by the device's own account."""
        return float(self._lib.device_share(self._memory, process.number))

    def settle(self) -> None:
        """Note when finished operations ran, while the device still knows."""
        for process, _ in self._lives:
            if not process.queued:
                continue
            done = self._lib.device_work(self._memory, process.number)
            finished = [op for op in process.queued if op[2] <= done + 1e-6]
            process.queued = [op for op in process.queued if op[2] > done + 1e-6]
            for queued, *clock in finished:
                began, ended = (
                    self._lib.device_time_at(self._memory, process.number, at) for at in clock
                )
                process.ran.append((max(queued, began), ended))

    def run(self, until_ns: float = math.inf) -> None:
        """Let everybody live until then, or until all have ended."""
        sleeping = [(0, process.number) for process, _ in self._lives]
        waiting: dict[int, float] = {}
        while sleeping or waiting:
            ends = [(self._lib.device_time_at(self._memory, n, w), n) for n, w in waiting.items()]
            first_end = min(ends, default=(math.inf, -1))
            first_wake = sleeping[0] if sleeping else (math.inf, -1)
            when, number = min(first_end, first_wake)
            if when > until_ns:
                return
            if when > self.now:
                self.now = int(when)
                self._lib.device_advance(self._memory, self.now)
                self.settle()
            if (when, number) == first_wake:
                heapq.heappop(sleeping)
            else:
                del waiting[number]
            step = next(self._lives[number][1], None)
            if step is None:
                continue
            kind, value = step
            if kind == "until":
                heapq.heappush(sleeping, (int(value), number))
            else:
                waiting[number] = value
