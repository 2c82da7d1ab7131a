"""A bound on bytes per second."""

import time
from collections.abc import Callable


class Pace:
    """Holds who asks back for as long as the bytes before have to take."""

    def __init__(
        self,
        bytes_per_s: int | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()  # When everything before has had its time.

    def wait(self, size: int) -> None:
        """Return once so many bytes may be sent."""
        if self._rate is None:
            return
        now = self._clock()
        if self._free_at > now:
            self._sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + size / self._rate
