"""Threads for what waits for the kernel: how many there are is not for tenants to say."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

_HELPERS_MAX: Final = 31  # Of all that is done in parallel at one time.

Work = Callable[[], None]

_room: Final = threading.Semaphore(_HELPERS_MAX)


def in_parallel(works: Iterable[Work]) -> None:
    """Do all of these; what one raises is raised when all are done.

    Who calls this does them, too: all are done, even where no thread can be had.
    """
    left = deque(works)
    errors: list[Exception] = []

    def take_part() -> None:
        while True:
            try:
                work = left.popleft()
            except IndexError:
                return
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the others are to be done all the same
                errors.append(error)

    helpers = []
    for _ in range(len(left) - 1):
        helper = _helper(take_part)
        if helper is None:
            break
        helpers.append(helper)
    take_part()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]


def in_background(work: Work, name: str) -> None:
    """Have it done by a thread of its own; here where none can be had."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:  # The host allows no more.
        work()


def _helper(work: Work) -> threading.Thread | None:
    def run() -> None:
        try:
            work()
        finally:
            _room.release()

    if not _room.acquire(blocking=False):
        return None
    thread = threading.Thread(target=run, name="parallel", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # The host allows no more.
        _room.release()
        return None
    return thread
