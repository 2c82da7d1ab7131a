"""Files of a store that others may have prepared: plain ones, read up to a bound.

Opening a FIFO waits for whoever writes to it, opening a device does what the device does, and
reading one never ends. So what is no plain file is refused before it is opened.
"""

import errno
import gc
import json
import os
import stat
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 64 << 20  # Of a manifest: that of 300,000 segments.
_CHUNK: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def is_plain(path: Path) -> bool:
    """Whether a plain file with content is there, maybe behind a link.

    What the kernel makes up while it is read calls itself a plain file, but has no size.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0


def check_plain(path: Path) -> None:
    """OSError unless a plain file is there."""
    _check(os.stat(path))


def _check(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.ENOTSUP, "it is no plain file; move it away")


def read_plain(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a plain file; OSError if it has more than this."""
    check_plain(path)
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        _check(status)
        return _read(fd, status.st_size, most_bytes)
    finally:
        os.close(fd)


def _read(fd: int, size: int, most_bytes: int) -> bytes:
    if size > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {_size(most_bytes)}; move it away")
    content = bytearray()
    while chunk := os.read(fd, _CHUNK):
        content += chunk
        if len(content) > most_bytes:
            raise OSError(errno.EFBIG, f"it grows beyond {_size(most_bytes)}; move it away")
    return bytes(content)


def _size(number: int) -> str:
    return f"{number / (1 << 20):g} MiB"


def parse_json(text: str | bytes) -> Any:
    """What JSON says; ValueError also where it is nested deeper than anybody would write."""
    # Deep inside there is no room for what is called when garbage is collected.
    collects = gc.isenabled()
    gc.disable()
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    finally:
        if collects:
            gc.enable()
