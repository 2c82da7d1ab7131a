"""The wish to stop, said by a signal and heard by a loop."""

import os
import select
import signal
from collections.abc import Iterable


class StopSignal:
    """An event that a signal handler may set.

    A handler runs inside the thread that it interrupts. The lock of a ``threading.Event`` may be
    held there already: setting it would wait for itself.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        for number in numbers:
            signal.signal(number, lambda *_: os.eventfd_write(self._fd, 1))

    def wait(self, seconds: float) -> bool:
        """Sleep for so long, or until a signal came; whether one has ever come."""
        return bool(self._poll.poll(seconds * 1000))
