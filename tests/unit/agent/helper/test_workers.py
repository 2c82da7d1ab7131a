"""A tenant's work waits for its own alone, and for threads there is a bound."""

import threading
import time
from collections.abc import Callable

import pytest

from cotenant.agent.helper import workers as module
from cotenant.agent.helper.workers import Workers

WAIT_S = 20


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def hanging() -> tuple[Workers[int], list[str], threading.Event]:
    """Who was served, and what lets the others go on: an item that is not zero waits."""
    go_on = threading.Event()
    done: list[str] = []

    def handle(tenant: str, item: int) -> None:
        if item:
            go_on.wait(WAIT_S)
        done.append(tenant)

    workers: Workers[int] = Workers("test", handle)
    workers.start()
    return workers, done, go_on


def test_everybody_is_served_while_others_wait_and_threads_go_when_they_are_done() -> None:
    workers, done, go_on = hanging()
    for number in range(13):
        assert workers.put(f"hangs {number}", 1)
        assert workers.put(f"hangs {number}", 0)
    assert workers.put("calm", 0)
    wait_until(lambda: bool(done))
    assert done == ["calm"]
    assert set(workers.held_up(0.0).values()) == {f"hangs {number}" for number in range(13)}
    go_on.set()
    wait_until(lambda: len(done) == 1 + 2 * 13)
    wait_until(lambda: len(workers._threads) <= 3)
    workers.stop(WAIT_S)
    assert not workers.serving


def test_where_no_thread_can_be_started_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    workers: Workers[int] = Workers("test", lambda _, item: done.append(item))
    workers.start()

    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.threading, "Thread", Refused)
    for number in range(23):
        assert workers.put("calm", number)
    wait_until(lambda: len(done) == 23)
    assert done == list(range(23))
    workers.stop(WAIT_S)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads serve, or seven if others are held up."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "_THREADS_MAX", 3)
    monkeypatch.setattr(module, "_WITH_HELD_UP_MAX", 7)


@pytest.mark.usefixtures("few")
def test_threads_that_are_held_up_leave_their_place_to_others() -> None:
    workers, done, go_on = hanging()
    for number in range(5):
        assert workers.put(f"hangs {number}", 1)
    wait_until(lambda: bool(workers.tend()) or len(workers._busy) == 5)
    assert workers.put("calm", 0)
    wait_until(lambda: bool(workers.tend()) or done == ["calm"])
    assert done == ["calm"]
    go_on.set()
    wait_until(lambda: len(done) == 6)
    wait_until(lambda: len(workers._threads) <= 3)
    workers.stop(WAIT_S)


@pytest.mark.usefixtures("few")
def test_who_waits_for_threads_that_are_all_held_up_is_told() -> None:
    workers, done, go_on = hanging()
    for number in range(7):
        assert workers.put(f"hangs {number}", 1)
    wait_until(lambda: bool(workers.tend()) or len(workers._busy) == 7)
    assert workers.tend() == set()  # Whoever hangs waits for himself.
    assert workers.put("hangs 0", 0)
    assert workers.put("calm", 0)
    assert workers.tend() == {"calm"}
    assert len(workers._threads) == 7
    go_on.set()
    wait_until(lambda: len(done) == 9)
    assert workers.tend() == set()
    workers.stop(WAIT_S)
