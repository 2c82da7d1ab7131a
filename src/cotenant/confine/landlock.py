"""Giving up files, and signals to others, by Landlock."""

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cotenant.confine.libc import LIBC, forgo_new_privileges

_SYS_CREATE: Final = 444
_SYS_ADD: Final = 445
_SYS_RESTRICT: Final = 446
_VERSION: Final = 1

RUN: Final = 1 << 0
READ: Final = 1 << 2 | 1 << 3
# Every right to change files that the first version of Landlock knows, and one of the third.
_WRITES: Final = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))
_TRUNCATE: Final = 1 << 14
_OF_FILES: Final = RUN | 1 << 1 | 1 << 2 | _TRUNCATE  # The others are of directories alone.
_TCP: Final = 1 << 0 | 1 << 1  # Bind and connect; version 4.
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1  # Of processes outside; version 6.


def confine_writes(directory: Path | None) -> bool:
    """Allow changes to files below one directory only, or none; false without Landlock."""
    version = _newest()
    places = {} if directory is None else {directory: _writes(version)}
    return _restrict((_writes(version), 0, 0), places)


def confine(
    *,
    write: Iterable[Path] = (),
    read: Iterable[Path] = (),
    run: Iterable[Path] = (),
) -> bool:
    """Allow this below these places, and no more; false without Landlock.

    Where the kernel can, also no TCP, and no signal to processes that are not so confined.
    Whoever may write or run may read.
    """
    version = _newest()
    writes = _writes(version)
    places = dict.fromkeys(read, READ)
    places |= dict.fromkeys(run, READ | RUN)
    places |= dict.fromkeys(write, READ | writes)
    network = _TCP if version >= 4 else 0
    scope = _ABSTRACT_SOCKETS | _SIGNALS if version >= 6 else 0
    return _restrict((READ | RUN | writes, network, scope), places)


def _newest() -> int:
    """The version of Landlock that the kernel has; below 1 is none."""
    return int(LIBC.syscall(_SYS_CREATE, None, 0, _VERSION))


def _writes(version: int) -> int:
    return _WRITES | (_TRUNCATE if version >= 3 else 0)


def _restrict(handled: tuple[int, int, int], places: Mapping[Path, int]) -> bool:
    """Give up what is handled but in these places; an older kernel knows fewer sorts of it."""
    known = 3 if handled[2] else 2 if handled[1] else 1
    ruleset = ctypes.create_string_buffer(struct.pack(f"{known}Q", *handled[:known]), 8 * known)
    rules = int(LIBC.syscall(_SYS_CREATE, ruleset, 8 * known, 0))
    if rules < 0:
        return False
    try:
        if not all([_allow(rules, place, rights) for place, rights in places.items()]):
            return False
        forgo_new_privileges()
        return not LIBC.syscall(_SYS_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: Path, rights: int) -> bool:
    """Whether it is allowed now; what is not there needs no right."""
    with contextlib.suppress(FileNotFoundError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(place).st_mode):
                rights &= _OF_FILES
            beneath = ctypes.create_string_buffer(struct.pack("=Qi", rights, place), 12)
            return not LIBC.syscall(_SYS_ADD, rules, 1, beneath, 0)
        finally:
            os.close(place)
    return True
