"""How much memory the agent's processes keep.

The recorder keeps freed memory of columns for the next seal. Columns of a hundred kilobytes and
more are made and freed twice a second. By default each is mapped, cleared by the kernel page by
page, and unmapped again: as dear as encoding it. The helper has big arrays seldom, in many threads:
it keeps none of them.
"""

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # <malloc.h>
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MAPPED_FROM: Final = 32 << 20  # The most that the C library takes.
_KEPT_BYTES: Final = 64 << 20
_SELDOM_MAPPED_FROM: Final = 128 << 10
# Parts of Arrow that it does without: file systems that a local store has no use for.
_NEEDLESS: Final = (
    "pyarrow._azurefs",
    "pyarrow._gcsfs",
    "pyarrow._hdfs",
    "pyarrow._s3fs",
    "pyarrow.dataset",
)


def keep_memory() -> None:
    """Keep freed memory up to a bound; to be called once, before Arrow is imported."""
    # Arrow's own allocator returns memory by the clock, however soon it is needed again.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    for module in _NEEDLESS:
        sys.modules.setdefault(module, None)  # type: ignore[arg-type]
    _tune({_M_MMAP_THRESHOLD: _MAPPED_FROM, _M_TRIM_THRESHOLD: _KEPT_BYTES, _M_ARENA_MAX: 2})


def share_memory() -> None:
    """Have all threads of this process allocate from one place, big arrays from the kernel."""
    _tune({_M_MMAP_THRESHOLD: _SELDOM_MAPPED_FROM, _M_ARENA_MAX: 1})


def _tune(options: dict[int, int]) -> None:
    with contextlib.suppress(AttributeError):  # Another C library than GNU's has its own ways.
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def give_back_memory() -> None:
    """Return free memory to the kernel, so that one big seal is not kept for ever."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def leave_libraries() -> None:
    """Unmap pages of libraries that only the start has needed.

    They stay in the page cache, from where one that is needed again comes at the next access.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with contextlib.suppress(OSError):
        for start, end in list(_unchanged()):
            madvise(start, end - start, mmap.MADV_DONTNEED)


def _unchanged() -> Iterator[tuple[int, int]]:
    """Mapped parts of files that this process cannot write, and has no copies of pages of."""
    start = end = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        key, _, value = line.partition(" ")
        if not key.endswith(":"):
            start, end = (int(part, 16) for part in key.split("-"))
            rights, _, _, inode, *_ = value.split()
            if rights not in ("r-xp", "r--p") or inode == "0":
                end = 0
        elif key == "Anonymous:" and end and value.split()[0] == "0":
            yield start, end
