"""GPU memory over time, with holdings as the kernel counts them."""

import numpy as np
import pytest

from cotenant.agent.memory import Memory
from cotenant.probes import syscalls
from cotenant.schema.layouts import HOLDING, HOLDING_KEY


class OneTenantEach:
    """A ledger whose ids are the kernel's."""

    def translate(self, ids: np.ndarray, _: np.ndarray) -> np.ndarray:
        return ids


class NoDevices:
    """GPUs that nobody knows."""

    def gpu(self, *_: object) -> None:
        return None


def test_a_tenant_that_holds_nothing_any_more_is_told_once_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: dict[int, int] = {}

    def items(*_: int) -> tuple[bytes, bytes]:
        keys, values = np.zeros(len(held), HOLDING_KEY), np.zeros(len(held), HOLDING)
        keys["pid"] = values["cgroup_id"] = list(held)
        keys["process_start_ns"] = 1000
        values["bytes"] = list(held.values())
        values["allocations"] = 1
        return keys.tobytes(), values.tobytes()

    monkeypatch.setattr(syscalls, "map_items", items)
    memory = Memory({"holdings": 1, "allocations": 2}, OneTenantEach(), NoDevices(), 0)
    told = []
    for tenant in range(1, 12):
        held.clear()
        held[tenant] = 100 * tenant
        for _ in range(2):
            rows = memory.read(0).to_pylist()
            told += [(row["cgroup_id"], row["bytes"]) for row in rows]
        assert list(memory._before) == [(tenant, None)]
    assert sorted(told) == sorted(
        [(n, 100 * n) for n in range(1, 12)] + [(n, 0) for n in range(1, 11)]
    )
