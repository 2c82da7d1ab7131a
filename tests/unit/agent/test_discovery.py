"""What one event does to the search must not end it for all others."""

import queue
from typing import Any

from cotenant.agent.channel import Closed
from cotenant.agent.discovery import Discovery

WAIT_S = 20


def fail(error: Exception) -> None:
    raise error


def test_the_search_goes_on_after_any_failure_and_says_so() -> None:
    told: list[dict[str, Any]] = []
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    discovery = Discovery(None, -1, told.append)  # type: ignore[arg-type]
    discovery.start()
    discovery.do(lambda: fail(OverflowError("int too large")))
    discovery.do(lambda: fail(FileNotFoundError("gone")))
    discovery.do(lambda: done.put(7))
    assert done.get(timeout=WAIT_S) == 7
    discovery.stop()
    text = "OverflowError: int too large"
    assert told == [{"type": "trouble", "of": "discovery", "text": text}]


def test_the_search_ends_when_the_recorder_is_gone() -> None:
    told: list[dict[str, Any]] = []
    discovery = Discovery(None, -1, told.append)  # type: ignore[arg-type]
    discovery.start()
    discovery.do(lambda: fail(Closed("the other process is gone")))
    discovery._thread.join(timeout=WAIT_S)
    assert not discovery._thread.is_alive()
    assert told == []
