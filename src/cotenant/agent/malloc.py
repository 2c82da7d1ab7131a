"""Memory for columns: what one seal gave back, the next one gets again.

Columns of a hundred kilobytes and more come and go twice a second. Left alone, each is mapped,
cleared by the kernel page by page, and unmapped again, which costs as much as encoding it.
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
    """Have freed columns kept for the next, up to a bound; once, before Arrow is imported."""
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
    """Return what is free now: now and then, so that one big seal is not kept for ever."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
