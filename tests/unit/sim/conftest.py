"""Programs on a device of their own, and what the libraries say really happened."""

import ctypes
import json
import math
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant import sim
from tests.unit.sim import workloads

Lines = list[dict[str, Any]]


@pytest.fixture
def device(tmp_path: Path) -> dict[str, str]:
    """The environment of a device that nobody else uses and that starts at once."""
    return {"COTENANT_SIM_DEVICE": f"{tmp_path}/gpu", "COTENANT_SIM_INIT_MS": "0"}


@pytest.fixture
def truth(tmp_path: Path, device: dict[str, str]) -> Callable[..., tuple[dict[str, Any], Lines]]:
    """Run a workload; its counts, and the lines of its truth log."""

    def run(story: str, *arguments: str, **extra: str) -> tuple[dict[str, Any], Lines]:
        log = tmp_path / "truth.jsonl"
        log.unlink(missing_ok=True)
        counts = workloads.run(
            story, arguments, extra={**device, "COTENANT_SIM_LOG": str(log), **extra}
        )
        return counts, [json.loads(line) for line in log.read_text().splitlines()]

    return run


@pytest.fixture
def start() -> Iterator[Callable[[list[str], dict[str, str]], subprocess.Popen[bytes]]]:
    """Start programs of the stand-in GPU without waiting for them; all are gone after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(line: list[str], extra: dict[str, str]) -> subprocess.Popen[bytes]:
        environment = sim.environment(extra)
        started.append(subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


class Model:
    """``device.c`` in virtual time."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(str(sim.library_dir() / "libsimdevice.so"))
        double, integer = ctypes.c_double, ctypes.c_int64
        self._lib.device_size.restype = ctypes.c_uint64
        self._lib.device_work.restype = double
        self._lib.device_submit.restype = double
        self._lib.device_time_at.restype = integer
        self._lib.device_work_at.restype = double
        self._lib.device_share.restype = double
        self._lib.device_share.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self._lib.device_take_turns.argtypes = [ctypes.c_void_p, integer]
        self._lib.device_join.argtypes = [ctypes.c_void_p, ctypes.c_int, double, ctypes.c_uint32]
        self._lib.device_leave.argtypes = [ctypes.c_void_p, ctypes.c_int, integer]
        self._lib.device_advance.argtypes = [ctypes.c_void_p, integer]
        self._lib.device_set_drained.argtypes = [ctypes.c_void_p, ctypes.c_int, double]
        self._lib.device_submit.argtypes = [
            ctypes.c_void_p, ctypes.c_int, integer, double, double,
        ]  # fmt: skip
        self._lib.device_time_at.argtypes = [ctypes.c_void_p, ctypes.c_int, double]
        self._lib.device_work_at.argtypes = [ctypes.c_void_p, ctypes.c_int, integer]
        self._memory = ctypes.create_string_buffer(self._lib.device_size())
        self._lib.device_reset(self._memory)

    def join(self, tenant: int, burden: float = 1.5) -> None:
        self._lib.device_join(self._memory, tenant, burden, tenant)

    def take_turns(self, slice_ns: int) -> None:
        self._lib.device_take_turns(self._memory, slice_ns)

    def share(self, tenant: int) -> float:
        return float(self._lib.device_share(self._memory, tenant))

    def leave(self, tenant: int, now: int) -> None:
        self._lib.device_leave(self._memory, tenant, now)

    def advance(self, now: int) -> None:
        self._lib.device_advance(self._memory, now)

    def submit(self, tenant: int, now: int, work: float, after: float = 0) -> float:
        self.advance(now)
        return float(self._lib.device_submit(self._memory, tenant, now, after, work))

    def wait_for_ever(self, tenant: int, now: int) -> None:
        self.advance(now)
        self._lib.device_set_drained(self._memory, tenant, math.inf)

    def drain(self, tenant: int, work: float) -> None:
        self._lib.device_set_drained(self._memory, tenant, work)

    def time_at(self, tenant: int, work: float) -> int:
        return int(self._lib.device_time_at(self._memory, tenant, work))


@pytest.fixture
def model() -> Model:
    return Model()
