"""Keeps freed memory of columns for the next seal.

Columns of a hundred kilobytes and more are made and freed twice a second. By default each is
mapped, cleared by the kernel page by page, and unmapped again: as dear as encoding it.
"""

import contextlib
import ctypes
import os
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # <malloc.h>
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MAPPED_FROM: Final = 32 << 20  # The most that the C library takes.
_KEPT_BYTES: Final = 64 << 20


def keep_memory() -> None:
    """Keep freed memory up to a bound; to be called once, before Arrow is imported."""
    # Arrow's own allocator returns memory by the clock, however soon it is needed again.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return  # Another C library than GNU's: it does as it pleases.
    mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    mallopt(_M_ARENA_MAX, 2)


def give_back_memory() -> None:
    """Return free memory to the kernel, so that one big seal is not kept for ever."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
