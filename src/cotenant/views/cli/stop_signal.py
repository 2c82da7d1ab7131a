"""The wish to stop, said by a signal and heard by a loop."""

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType

from cotenant.views.cli.ending import end_now


class StopSignal:
    """An event that a signal handler may set.

    A handler runs inside the thread that it interrupts. The lock of a ``threading.Event`` may be
    held there already: setting it would wait for itself. With ``words``, which are printed at once,
    a second signal ends the process.
    """

    def __init__(self, numbers: Iterable[int], words: str | None = None) -> None:
        self._words = words
        self._told = False
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        for number in numbers:
            signal.signal(number, self._set)

    def wait(self, seconds: float) -> bool:
        """Sleep for so long, or until a signal came; whether one has ever come."""
        return bool(self._poll.poll(seconds * 1000))

    def _set(self, number: int, _: FrameType | None) -> None:
        os.eventfd_write(self._fd, 1)
        if self._words is None:
            return
        if self._told:
            end_now(number)
        self._told = True
        with suppress(OSError):
            os.write(2, self._words.encode())
