"""systemd's rules for cgroup names, as ``cg_path_get_unit`` applies them.

The host's unit is the first component after the leading slices. Inside
``user@UID.service`` the user's own manager starts again with slices and a unit.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

_SLICE_CHARACTERS: Final = re.compile(r"[A-Za-z0-9:_.\\-]+").fullmatch
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9:_.\\@-]+").fullmatch
_TYPES: Final = frozenset(
    [
        "service",
        "scope",
        "socket",
        "mount",
        "automount",
        "swap",
        "target",
        "device",
        "timer",
        "path",
    ]
)
_USER_SLICE: Final = re.compile(r"user-([0-9]{1,10})\.slice").fullmatch
_USER_MANAGER: Final = re.compile(r"user@([0-9]{1,10})\.service").fullmatch
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")
_NAME_MAX: Final = 255


class Units(NamedTuple):
    """Where the host's manager, and a user's below it, put a path."""

    slices: int = 0  # Leading components that are slices.
    unit: str | None = None
    user_uid: int | None = None
    user_end: int = 0  # Components up to the first that names the user.
    manager_end: int = 0  # Components up to user@UID.service; 0 without one.
    user_unit: str | None = None


def unit_name(component: str) -> str | None:
    """The unit that a cgroup of this name belongs to; None if it is no unit's name."""
    if component[0] == "_":  # systemd escapes names that collide with kernel files.
        component = component[1:]
    stem, _, type_ = component.rpartition(".")
    if type_ in _TYPES and stem and len(component) <= _NAME_MAX and _CHARACTERS(stem):
        return component
    return None


def skip_slices(parts: Sequence[str], start: int) -> int:
    """The index of the first component from ``start`` on that is no slice."""
    index = start
    for name in parts[start:] if start else parts:
        if not name.endswith(".slice") or not _SLICE_CHARACTERS(name):
            return index
        index += 1
    return index


def unit_at(parts: Sequence[str], start: int) -> str | None:
    """The unit of a manager whose tree begins at ``start``."""
    index = skip_slices(parts, start)
    return unit_name(parts[index]) if index < len(parts) else None


def find_units(parts: Sequence[str]) -> Units:
    """The host's unit and, inside a user's manager, the user's unit."""
    slices = skip_slices(parts, 0)
    uid, user_end = None, 0
    # A user's slice stands in user.slice; a relative path may begin with it.
    if slices and (match := _USER_SLICE(parts[0])):
        uid, user_end = int(match[1]), 1
    if slices > 1 and (match := _USER_SLICE(parts[1])):
        uid, user_end = int(match[1]), 2
    unit = unit_name(parts[slices]) if slices < len(parts) else None
    if unit is None or not unit.startswith("user@") or not (match := _USER_MANAGER(unit)):
        return Units(slices, unit, uid, user_end, 0, None)
    if uid is None:
        uid, user_end = int(match[1]), slices + 1
    return Units(slices, unit, uid, user_end, slices + 1, unit_at(parts, slices + 1))


def unescape(name: str) -> str:
    r"""A systemd-escaped name in plain text: ``\x2d`` is ``-``."""
    if "\\" not in name:
        return name
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
