"""Giving up the right to change files, by Landlock."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

from cotenant.confine.libc import LIBC, forgo_new_privileges

_SYS_CREATE: Final = 444
_SYS_ADD: Final = 445
_SYS_RESTRICT: Final = 446
_VERSION: Final = 1
# Every right to change files that the first version of Landlock knows, and one of the third.
_WRITES: Final = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))
_TRUNCATE: Final = 1 << 14


def confine_writes(directory: Path | None) -> bool:
    """Allow changes to files below one directory only, or none; false without Landlock."""
    version = int(LIBC.syscall(_SYS_CREATE, None, 0, _VERSION))
    writes = _WRITES | (_TRUNCATE if version >= 3 else 0)
    ruleset = ctypes.create_string_buffer(struct.pack("Q", writes), 8)
    rules = int(LIBC.syscall(_SYS_CREATE, ruleset, 8, 0))
    if rules < 0:
        return False
    try:
        if directory is not None and not _allow(rules, writes, directory):
            return False
        forgo_new_privileges()
        return not LIBC.syscall(_SYS_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, writes: int, directory: Path) -> bool:
    place = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", writes, place), 12)
        return not LIBC.syscall(_SYS_ADD, rules, 1, beneath, 0)
    finally:
        os.close(place)
