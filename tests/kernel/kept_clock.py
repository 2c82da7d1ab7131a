"""A host whose clock somebody keeps: the kernel is told how far it may be off, as by chrony."""

import ctypes
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None, use_errno=True)
_BYTES = 256
_MODES, _MAXERROR, _STATUS = 0, 24, 40
_SET_MAXERROR, _SET_STATUS = 0x4, 0x10
_UNSYNCHRONISED = 0x40


def _adjust(modes: int = 0, status: int = 0, most_us: int = 0) -> tuple[int, int]:
    timex = ctypes.create_string_buffer(_BYTES)
    struct.pack_into("I", timex, _MODES, modes)
    struct.pack_into("q", timex, _MAXERROR, most_us)
    struct.pack_into("i", timex, _STATUS, status)
    assert _LIBC.clock_adjtime(time.CLOCK_REALTIME, timex) >= 0
    return struct.unpack_from("i", timex, _STATUS)[0], struct.unpack_from("q", timex, _MAXERROR)[0]


@contextmanager
def kept_clock(most_us: int) -> Iterator[None]:
    """Until then the clock is off by at most so much; the time itself stays as it is."""
    status, before_us = _adjust()
    _adjust(_SET_MAXERROR | _SET_STATUS, status & ~_UNSYNCHRONISED, most_us)
    try:
        yield
    finally:
        _adjust(_SET_MAXERROR | _SET_STATUS, status, before_us)
