"""Whose a store is: who owns a directory, or may write to it, leads its writer anywhere by a link.

The group may have been given the right to write, as volumes of Kubernetes are; that is its owner's
choice.
"""

import os
import stat
from pathlib import Path

from cotenant.errors import StoreError


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in (0, os.geteuid())


def _is_everybodys(status: os.stat_result) -> bool:
    return bool(status.st_mode & stat.S_IWOTH)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def check_way(root: Path) -> None:
    """Raise, in words, if anybody else could put another directory in a store's place."""
    way = Path(os.path.abspath(root))
    for place in (way, *way.parents):
        status = _status(place)
        if status and stat.S_ISLNK(status.st_mode) and not _is_ours(status):
            raise StoreError(
                f"{place} is a link that user {status.st_uid} made and may turn elsewhere; "
                "name a directory with --store"
            )
    for place in Path(os.path.realpath(way)).parents:
        status, above = _status(place), _status(place.parent)
        if status and _is_everybodys(status) and not status.st_mode & stat.S_ISVTX:
            raise StoreError(
                f"everybody may replace what lies in {place}; "
                f"`chmod +t {place}`, or choose another --store"
            )
        # A user's home is a place to record into; what he put where everybody may is a trap.
        if status and above and not _is_ours(status) and _is_everybodys(above):
            raise StoreError(
                f"{place} is of user {status.st_uid}, in a place where everybody may put things; "
                "choose another --store"
            )


def check_owner(path: Path) -> os.stat_result:
    """Raise, in words, unless this is a directory, no link, that only we or root may change."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        what = "a link" if stat.S_ISLNK(status.st_mode) else "no directory"
        raise StoreError(f"{path} is {what}, and not written to; remove it")
    if not _is_ours(status):
        raise StoreError(
            f"{path} belongs to user {status.st_uid}, who could lead what we write elsewhere; "
            f"`chown` it to user {os.geteuid()}, or choose another --store"
        )
    return status


def check_directory(path: Path) -> None:
    """The same, and nobody else may write there."""
    if _is_everybodys(check_owner(path)):
        raise StoreError(
            f"everybody may write to {path}; `chmod o-w {path}`, or choose another --store"
        )


def is_behind_link(root: Path, path: str) -> bool:
    """Whether a link stands anywhere between the store and what lies there below it."""
    below = Path(path)
    return any((root / place).is_symlink() for place in (below, *below.parents[:-1]))
