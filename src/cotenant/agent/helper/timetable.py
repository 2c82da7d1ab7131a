"""What is to be done later, to the millisecond."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable


class Timetable:
    """Calls back when it is time, from a thread of its own: what is called must be quick."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timetable", daemon=True)

    def start(self) -> None:
        """Begin to call back."""
        self._thread.start()

    def stop(self) -> None:
        """Call nobody any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def add(self, seconds: float, call: Callable[[], None]) -> None:
        """Call this in so many seconds."""
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), call))
            self._changed.notify()

    def _run(self) -> None:
        while call := self._next():
            call()

    def _next(self) -> Callable[[], None] | None:
        """The next one, when it is due; None when it is time to end."""
        with self._changed:
            while not self._stopped:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
            return None
