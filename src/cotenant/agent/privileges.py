"""Giving up what is not needed: after the start the recorder can do nothing but its work."""

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

from cotenant.errors import Unsupported

_libc: Final = ctypes.CDLL(None, use_errno=True)
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SYS_CAPSET: Final = 126
_CAPABILITY_VERSION_3: Final = 0x20080522
_SYS_LANDLOCK_CREATE: Final = 444
_SYS_LANDLOCK_ADD: Final = 445
_SYS_LANDLOCK_RESTRICT: Final = 446
# Every right to change files that the first version of Landlock knows.
_WRITES: Final = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))


def need_root() -> None:
    """One clear word instead of a failing system call."""
    if os.geteuid() != 0:
        raise Unsupported("recording needs root; try sudo (looking at a store does not)")


def drop_capabilities() -> None:
    """Keep no capability, and no way to get one back."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(last + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    if _libc.syscall(_SYS_CAPSET, header, nothing):
        number = ctypes.get_errno()
        raise Unsupported(f"cannot drop capabilities: {os.strerror(number)}")


def confine_writes(directory: Path) -> bool:
    """Allow changes to files below one directory only; false where the kernel has no Landlock."""
    ruleset = ctypes.create_string_buffer(struct.pack("Q", _WRITES), 8)
    rules = int(_libc.syscall(_SYS_LANDLOCK_CREATE, ruleset, 8, 0))
    if rules < 0:
        return False
    place = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = ctypes.create_string_buffer(struct.pack("=Qi", _WRITES, place), 12)
        if _libc.syscall(_SYS_LANDLOCK_ADD, rules, 1, beneath, 0):
            return False
        return not _libc.syscall(_SYS_LANDLOCK_RESTRICT, rules, 0)
    finally:
        os.close(place)
        os.close(rules)
