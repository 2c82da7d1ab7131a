"""The wish to stop, said by a signal and heard by a loop."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Final

from cotenant.views.cli.ending import end_now

# `timeout` tells the process, and then its group: that is one wish.
_ONE_WISH_S: Final = 0.1
_LONGEST_MS: Final = 2**31 - 1


class StopSignal:
    """An event that a signal handler may set.

    A handler runs inside the thread that it interrupts. The lock of a ``threading.Event`` may be
    held there already: setting it would wait for itself. With ``words``, which are printed at once,
    a second signal ends the process, after what is to be done ``at_last``.
    """

    def __init__(
        self,
        numbers: Iterable[int],
        words: str | None = None,
        at_last: Callable[[], None] = lambda: None,
    ) -> None:
        self._words = words
        self._at_last = at_last
        self._told_at: float | None = None
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        for number in numbers:
            signal.signal(number, self._set)

    def wait(self, seconds: float) -> bool:
        """Sleep for so long, or until a signal came; whether one has ever come."""
        return bool(self._poll.poll(min(seconds * 1000, _LONGEST_MS)))

    def _set(self, number: int, _: FrameType | None) -> None:
        os.eventfd_write(self._fd, 1)
        if self._words is None:
            return
        now = time.monotonic()
        if self._told_at is None:
            self._told_at = now
            with suppress(OSError):
                os.write(2, self._words.encode())
        elif now - self._told_at > _ONE_WISH_S:
            self._at_last()
            end_now(number)
