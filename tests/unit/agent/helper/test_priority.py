"""The helper goes before others for a share of the time, however busy tenants keep it."""

import os
import time
from collections.abc import Callable

import pytest

from cotenant.agent.helper import priority as module
from cotenant.agent.helper.priority import Priority


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    now = {"monotonic": 100.0, "process_time": 5.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["monotonic"])
    monkeypatch.setattr(time, "process_time", lambda: now["process_time"])
    return now


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the kernel, once for all threads."""
    found: list[str] = []

    def way(name: str) -> Callable[[int], None]:
        return lambda thread: found.append(name) if thread == os.getpid() else None

    monkeypatch.setattr(module, "_WAYS", {"first": way("first")})
    monkeypatch.setattr(module, "_plain", way("plain"))
    return found


def test_who_uses_too_much_is_lowered_until_it_has_paid(
    clock: dict[str, float], done: list[str]
) -> None:
    priority = Priority()
    priority.take()
    assert (priority.kind, done) == ("first", ["first"])
    for _ in range(20):  # A quarter of one CPU, for ever.
        clock["monotonic"] += 1
        clock["process_time"] += 0.25
        priority.tend()
    assert done == ["first"]
    for _ in range(3):
        clock["monotonic"] += 1
        clock["process_time"] += 1
        priority.tend()
    assert done == ["first", "plain"]
    for _ in range(30):
        clock["monotonic"] += 1
        priority.tend()
    assert done == ["first", "plain", "first"]


def test_where_nothing_is_allowed_it_runs_as_others_do(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise PermissionError("not permitted")

    monkeypatch.setattr(module, "_WAYS", {"first": refuse, "second": refuse})
    priority = Priority()
    priority.take()
    priority.tend()
    assert priority.kind == "none"
