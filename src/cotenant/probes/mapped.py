"""A page of a file in our own memory, for what only a mapping shows.

It is never read there: a file that was cut short would kill its reader.
"""

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@contextmanager
def mapped_page(
    fd: int, protection: int = mmap.PROT_READ, offset: int = 0, *, shared: bool = False
) -> Iterator[int | None]:
    """Where it is mapped until the end of the block; None if it cannot be.

    The kernel places no probe in a shared mapping, and waits for none of its locks.
    """
    flags = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    address = _libc.mmap(None, mmap.PAGESIZE, protection, flags, fd, offset)
    if address is None or address == ctypes.c_void_p(-1).value:
        yield None
        return
    try:
        yield address
    finally:
        _libc.munmap(address, mmap.PAGESIZE)
