"""Checks that no other user can redirect a store's writer: by owner, mode and links.

The group may have been given the right to write, as volumes of Kubernetes are; that is its owner's
choice.
"""

import os
import stat
from pathlib import Path

from cotenant.errors import StoreError


def _is_ours(status: os.stat_result, owner: int | None = None) -> bool:
    return status.st_uid in (0, os.geteuid() if owner is None else owner)


def _is_everybodys(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWOTH)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_way(root: Path) -> None:
    """Raise StoreError if another user could replace a directory above the store."""
    way = Path(os.path.abspath(root))
    for place in (way, *way.parents):
        status = _status(place)
        if status and stat.S_ISLNK(status.st_mode) and not _is_ours(status):
            raise StoreError(
                f"{place} is a link of user {status.st_uid}, who can redirect it; "
                "name a directory with --store"
            )
    for place in Path(os.path.realpath(way)).parents:
        status, above = _status(place), _status(place.parent)
        if status and _is_everybodys(status) and not status.st_mode & stat.S_ISVTX:
            raise StoreError(
                f"{place} is world-writable without the sticky bit; "
                f"`chmod +t {place}`, or choose another --store"
            )
        # A user's home is fine to record into; a user's directory in /tmp may be a trap.
        if status and above and not _is_ours(status) and _is_everybodys(above):
            raise StoreError(
                f"{place} belongs to user {status.st_uid}, in a world-writable directory; "
                "choose another --store"
            )


def check_owner(path: Path, owner: int | None = None) -> os.stat_result:
    """Raise StoreError unless this is a directory, not a link, owned by root or ``owner``: us."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        what = "a link" if stat.S_ISLNK(status.st_mode) else "not a directory"
        raise StoreError(f"{path} is {what}; remove it")
    if not _is_ours(status, owner):
        raise StoreError(
            f"{path} belongs to user {status.st_uid}, who could redirect writes; "
            f"`chown` it to user {os.geteuid() if owner is None else owner}, "
            "or choose another --store"
        )
    return status


def check_directory(path: Path, owner: int | None = None) -> None:
    """The same, and raise StoreError if it is world-writable."""
    if _is_everybodys(check_owner(path, owner)):
        raise StoreError(f"{path} is world-writable; `chmod o-w {path}`, or choose another --store")


def is_behind_link(root: Path, path: str) -> bool:
    """Whether any part of this path below the store is a link."""
    below = Path(path)
    return any((root / place).is_symlink() for place in (below, *below.parents[:-1]))
