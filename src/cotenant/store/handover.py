"""Root gives a store to the user who writes it from then on.

That user may have been taken over before and have planted what it likes. So root follows no link
here, gives away nothing that has a name elsewhere, too, and makes and removes nothing itself.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.errors import StoreError
from cotenant.store.directory import SET_GROUP_ID, check_empty
from cotenant.store.durable import DIRECTORY_MODE, store_error
from cotenant.store.layout import is_store
from cotenant.store.ownership import check_directory, check_owner, check_way

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH: Final = 3  # A table, a date, a node.
_NOT_OURS: Final = frozenset({"lost+found"})
_KEEP: Final = -1  # As chown(2) has it.


@dataclass(frozen=True, slots=True)
class StoreOwner:
    """Whom a store is to belong to."""

    uid: int
    gid: int
    readers: int | None = None  # The group that may read it; None leaves an existing store its own.


def hand_over(root: Path, owner: StoreOwner) -> int:
    """Make the store, or take it over from root; the directory, open."""
    try:
        check_way(root)
        root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        check_way(root)
        check_owner(root.resolve(), owner.uid)
        fd = os.open(root.resolve(), _FOLDER)
    except FileExistsError as error:
        raise StoreError(f"{root} is a file; name a directory with --store") from error
    except OSError as error:
        raise store_error("open the store", root, error) from error
    try:
        _give(root, fd, owner)
    except PermissionError as error:
        os.close(fd)
        raise StoreError(
            f"cannot give {root} to user {owner.uid}: {error.strerror}; give CAP_CHOWN, or "
            f"`chown -R {owner.uid}` it"
        ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _give(root: Path, fd: int, owner: StoreOwner) -> None:
    new = not is_store(root)
    if new:
        check_empty(root)
    gid = owner.readers
    if gid is None:
        gid = owner.gid if new else _KEEP
    _give_inside(fd, owner, gid)
    status = os.fstat(fd)
    if new or status.st_uid != owner.uid or gid not in (_KEEP, status.st_gid):
        mode = DIRECTORY_MODE if new else stat.S_IMODE(status.st_mode)
        _give_folder(fd, owner, gid, mode)
    if new:
        check_empty(root)  # From now on nobody else writes to it.
    check_directory(root.resolve(), owner.uid)


def _give_inside(fd: int, owner: StoreOwner, gid: int, depth: int = 0) -> None:
    """Give away what root has in a directory: files first, so that a folder that is given is done.

    Files of ours that root wrote later are in a folder of our group, and can be read by it.
    """
    status = os.fstat(fd)
    done = status.st_uid == owner.uid and depth > 1
    # Where nobody but root can write, nobody else made a second name for a file of root's.
    trusted = status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    for name in _names(fd):
        entry = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(entry.st_mode):
            if depth < _DEPTH and name not in _NOT_OURS and entry.st_dev == status.st_dev:
                _give_below(fd, name, owner, gid, depth)
        elif not done and entry.st_uid == 0:
            _give_file(fd, name, owner, gid, trusted=trusted)


def _names(fd: int) -> list[str]:
    with os.scandir(fd) as entries:
        return [entry.name for entry in entries]


def _give_below(above: int, name: str, owner: StoreOwner, gid: int, depth: int) -> None:
    fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        _give_inside(fd, owner, gid, depth + 1)
        status = os.fstat(fd)
        if status.st_uid == 0:
            _give_folder(fd, owner, gid, stat.S_IMODE(status.st_mode))
    finally:
        os.close(fd)


def _give_folder(fd: int, owner: StoreOwner, gid: int, mode: int) -> None:
    status = os.fstat(fd)
    # What is made below inherits the group, where it is not the writer's own.
    wanted = mode | (SET_GROUP_ID if gid not in (_KEEP, owner.gid) else 0)
    # Of what is given already, its owner changes the mode: we may lack the right.
    if status.st_uid == 0 and wanted != stat.S_IMODE(status.st_mode):
        os.fchmod(fd, wanted)
    os.chown(fd, owner.uid, gid)


def _give_file(above: int, name: str, owner: StoreOwner, gid: int, *, trusted: bool) -> None:
    fd = os.open(name, _NAME, dir_fd=above)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and (trusted or status.st_nlink == 1):
            os.chown(f"/proc/self/fd/{fd}", owner.uid, gid)
    finally:
        os.close(fd)
