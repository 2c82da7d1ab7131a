"""Opens tenants' files without following links out of their root.

A path is resolved below the tenant's own root, as the tenant would see it: an absolute symbolic
link in a container must not lead into the host. Only plain files are opened, since a pipe or a
device could make the opener wait.
"""

import ctypes
import os
import stat
import struct
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_IN_ROOT: Final = 0x10


def open_root(pid: int) -> int:
    """The root directory of a process, as a descriptor to resolve below."""
    return os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def open_below(root: int, path: str, flags: int) -> int:
    """Open a path with ``root`` as its root directory."""
    how = ctypes.create_string_buffer(
        struct.pack("QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS), 24
    )
    name = ctypes.create_string_buffer(os.fsencode(path))
    fd = int(_libc.syscall(_SYS_OPENAT2, root, name, how, 24))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd


def open_file(root: int, path: str) -> int:
    """A plain file below ``root``, open for reading; OSError for anything else."""
    place = open_below(root, path, os.O_PATH)
    try:
        return reopen(place)
    finally:
        os.close(place)


def reopen(place: int) -> int:
    """A readable descriptor of the plain file behind an O_PATH one."""
    if not stat.S_ISREG(os.fstat(place).st_mode):
        raise OSError(22, "not a plain file")
    return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def open_mapping(pid: int, start: int, end: int) -> int:
    """The file behind a mapping of a process, even if it has no name any more."""
    place = os.open(f"/proc/{pid}/map_files/{start:x}-{end:x}", os.O_PATH | os.O_CLOEXEC)
    try:
        return reopen(place)
    finally:
        os.close(place)
