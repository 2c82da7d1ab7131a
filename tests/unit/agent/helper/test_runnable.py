"""Whether anything of ours waits for a CPU."""

import os
import signal
import threading
import time
from collections.abc import Callable

from cotenant.agent.helper.runnable import runnable


def until(wanted: bool) -> None:
    deadline = time.monotonic() + 60
    while runnable() is not wanted:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    return child


def work_for_a_while() -> None:
    while time.process_time() < 2:
        pass


def test_a_child_of_a_child_that_works_is_runnable_and_one_that_sleeps_is_not() -> None:
    until(False)

    def has_a_child() -> None:
        os.waitpid(forked(work_for_a_while), 0)
        time.sleep(60)

    child = forked(has_a_child)
    until(True)
    until(False)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_thread_that_works_is_runnable_and_one_that_waits_is_not() -> None:
    stop, over = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(range(100))
        over.wait()

    thread = threading.Thread(target=work)
    thread.start()
    until(True)
    stop.set()
    until(False)
    over.set()
    thread.join()
