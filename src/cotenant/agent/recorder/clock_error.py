"""How far the host's clock may be from UTC, as the kernel was told by whoever keeps it."""

import ctypes
import struct
import time
from typing import Final

from cotenant.confine.libc import LIBC

_BYTES: Final = 256  # struct timex has 208; all of it zero is a question, and changes nothing.
_MAXERROR: Final = 24  # Where its fields are, on 64 bits.
_STATUS: Final = 40
_UNSYNCHRONISED: Final = 0x40
_EVERY_S: Final = 60.0
_NEWS: Final = 0.25  # Smaller changes are not told: between two readings of its source it grows.


def clock_error_ns() -> int | None:
    """The largest error of the clock, in ns; None if nothing keeps it."""
    timex = ctypes.create_string_buffer(_BYTES)
    if LIBC.clock_adjtime(time.CLOCK_REALTIME, timex) < 0:
        return None
    (status,) = struct.unpack_from("i", timex, _STATUS)
    (most_us,) = struct.unpack_from("q", timex, _MAXERROR)
    return None if status & _UNSYNCHRONISED else int(most_us) * 1000


class ClockError:
    """The error as it was last told."""

    def __init__(self) -> None:
        self.told_ns = clock_error_ns()
        self._next = time.monotonic() + _EVERY_S

    def look(self) -> int | None:
        """The error, a minute old at most; the one before if it is about the same."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_S
            found, told = clock_error_ns(), self.told_ns
            if found is None or told is None or abs(found - told) > _NEWS * told:
                self.told_ns = found
        return self.told_ns
