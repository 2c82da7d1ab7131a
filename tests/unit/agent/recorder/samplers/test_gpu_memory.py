"""GPU memory over time, with holdings as the kernel counts them."""

from types import SimpleNamespace

import numpy as np
import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.agent.recorder.samplers.gpu_memory import GpuMemory
from cotenant.schema.layouts import HOLDING, HOLDING_KEY

ENDED = 13  # A process that the kernel sweeps out.
START_NS = 1000
CONTEXT = 0xC0


class OneTenantEach:
    """A ledger whose ids are the kernel's."""

    def translate(self, ids: np.ndarray, _: np.ndarray) -> np.ndarray:
        return ids


class NoDevices:
    """GPUs that nobody knows."""

    def gpu(self, *_: object) -> None:
        return None


class Held(dict[int, int]):
    """The kernel's map of holdings: bytes by process, each a tenant of its own."""

    def items(self) -> tuple[bytes, bytes]:
        keys, values = np.zeros(len(self), HOLDING_KEY), np.zeros(len(self), HOLDING)
        keys["pid"] = values["cgroup_id"] = list(self)
        keys["process_start_ns"] = START_NS
        keys["context"] = CONTEXT
        values["bytes"] = list(self.values())
        values["allocations"] = 1
        values["tenant"] = list(self)
        return keys.tobytes(), values.tobytes()

    def read(self) -> None:
        """What the kernel does when it is told to sweep."""
        self.pop(ENDED, None)


@pytest.fixture
def held() -> Held:
    return Held()


def memory_on(devices: object, held: Held) -> GpuMemory:
    nothing = SimpleNamespace(items=lambda: (b"", b""))
    maps = {"holdings": held, "sweep": held, "usage": nothing, "freed": nothing}
    return GpuMemory(maps, OneTenantEach(), devices, 0, WallClock())


def test_a_tenant_that_holds_nothing_any_more_is_told_once_and_forgotten(
    held: Held,
) -> None:
    memory = memory_on(NoDevices(), held)
    told = []
    for tenant in range(1, 12):
        held.clear()
        held[tenant] = 100 * tenant
        for _ in range(2):
            memory.look()
            rows = memory.sample(0).to_pylist()
            told += [(row["cgroup_id"], row["bytes"]) for row in rows]
        assert list(memory._before) == [(tenant, None)]
    assert sorted(told) == sorted(
        [(n, 100 * n) for n in range(1, 12)] + [(n, 0) for n in range(1, 11)]
    )


def test_what_does_not_change_is_told_again_before_its_row_is_too_old(held: Held) -> None:
    memory = memory_on(NoDevices(), held)
    held[1] = 100
    minute = 60 * 10**9
    told = []
    for n in range(31):
        memory.look()
        told += [row["timestamp_ns"] // minute for row in memory.sample(n * minute).to_pylist()]
    assert told == [0, 10, 20, 30]


def test_a_holding_is_on_the_gpu_that_becomes_known_after_the_look(held: Held) -> None:
    devices = Devices()
    memory = memory_on(devices, held)
    first, second = Process(3, START_NS), Process(5, START_NS)
    held[3] = 300
    memory.look()
    held[5] = 500  # Its context is told of after the facts of this time are taken.
    known = {"cgroup_id": 3, "cgroup_v1_id": 0, "function": 151, "address": CONTEXT, "other": 0}
    for process in (first, second):
        devices.device({**known, "handle": 0}, process, bytes(range(16)))
    devices.context(known, first)
    gpu = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    told = [(r["cgroup_id"], r["gpu"], r["bytes"]) for r in memory.sample(0).to_pylist()]
    assert told == [(3, gpu, 300)]
    memory.look()
    devices.context(known, second)
    told = [(r["cgroup_id"], r["gpu"], r["bytes"]) for r in memory.sample(0).to_pylist()]
    assert told == [(5, gpu, 500)]


def test_what_a_process_came_to_hold_between_a_look_and_its_end_is_forgotten(
    held: Held,
) -> None:
    memory = memory_on(NoDevices(), held)
    memory.look()
    held.update({ENDED: 300, 5: 500})
    memory.gone(Process(ENDED, START_NS))
    assert memory.sample(0).num_rows == 0
    assert held == {5: 500}
