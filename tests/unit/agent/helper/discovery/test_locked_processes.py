"""Processes that kept their memory locked are remembered until their mappings can be read."""

import os
from typing import Any

import pytest

from cotenant.agent.helper.discovery import locked_processes
from cotenant.agent.helper.discovery.locked_processes import LockedProcesses
from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.protocol.reports import WorkPassedOver
from cotenant.probes.memory_locks import MemoryLock

ENDED = 1 << 22  # No process has so large a number.


@pytest.fixture(autouse=True)
def tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_processes, "tenant_of", {os.getpid(): "here", ENDED: "gone"}.get)


def lock(pid: int) -> Any:
    return MemoryLock(pid, 1, pid, writing=True, forking=False)


def test_the_first_moment_counts_and_is_known_once_the_lock_is_released() -> None:
    passed_over = PassedOver()
    locked = LockedProcesses(passed_over)
    locked.add({5: lock(os.getpid()), 7: lock(os.getpid())}, 100)
    locked.add({5: lock(os.getpid())}, 200)
    assert locked.released({5, 7}) is None
    assert locked.released({7}) == 100
    assert locked.released(set()) == 100
    assert locked.released(set()) is None
    assert passed_over.take_news(last=True) is None


def test_the_mappings_of_a_process_that_ends_locked_are_missing() -> None:
    passed_over = PassedOver()
    locked = LockedProcesses(passed_over)
    locked.add({5: lock(ENDED)}, 100)
    locked.released(set())
    assert passed_over.take_news(last=True) == WorkPassedOver({"mappings": {"gone": 1}})
