"""What is done in parallel is done, however many threads there are for it."""

import threading
from functools import partial
from typing import Any

import pytest

from cotenant.probes.threads import in_background, in_parallel

WAIT_S = 20


def no_start(_: threading.Thread) -> None:
    """As where the host allows no more threads."""
    raise RuntimeError("can't start new thread")


def test_all_is_done_at_the_same_time() -> None:
    meeting = threading.Barrier(23)
    in_parallel([partial(meeting.wait, WAIT_S)] * 23)


def test_all_is_done_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_start)
    done: list[Any] = []
    for _ in range(3):
        in_parallel(partial(done.append, number) for number in range(37))
    in_background(partial(done.append, "here"), "test")
    assert done == [*range(37)] * 3 + ["here"]


def test_one_that_fails_is_told_when_the_others_are_done() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 5:
            raise OSError("of 5")
        done.append(number)

    with pytest.raises(OSError, match="of 5"):
        in_parallel(partial(work, number) for number in range(23))
    assert sorted(done) == [*range(5), *range(6, 23)]


def test_however_many_ask_threads_are_few() -> None:
    before = threading.active_count()
    counts: list[int] = []
    meeting = threading.Barrier(7)

    def inner() -> None:
        counts.append(threading.active_count())

    def outer() -> None:
        meeting.wait(WAIT_S)  # All seven have asked.
        in_parallel([inner] * 101)

    in_parallel([outer] * 7)
    in_parallel([partial(in_parallel, [inner] * 101)] * 101)
    assert len(counts) == 7 * 101 + 101 * 101
    assert max(counts) <= before + 31
    in_parallel([partial(threading.Barrier(23).wait, WAIT_S)] * 23)  # All of them are back.
