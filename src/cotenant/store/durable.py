"""Files that are whole or absent: written aside, synced, renamed.

A name that begins with a dot is not there yet, or not there for long: every reader skips it.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from cotenant.errors import StoreError
from cotenant.store.ownership import check_directory

PART = ".part"
DIRECTORY_MODE = 0o750
FILE_MODE = 0o640

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EROFS: "the file system is read-only; remount it or choose another --store",
    errno.EACCES: "permission denied; run as a user who may, or choose another --store",
    errno.EPERM: "not permitted; run as a user who may, or choose another --store",
    errno.ENOENT: "it is gone; was the store moved or deleted?",
    errno.ELOOP: "it is a link, or has another name too; remove it",
    errno.ENOTDIR: "a part of the path is no directory; choose another --store",
}


def store_error(doing: str, path: Path, error: OSError) -> StoreError:
    """One line: what failed, on what, and what to do about it."""
    why = _ADVICE.get(error.errno or 0) or error.strerror or str(error)
    return StoreError(f"cannot {doing} {path}: {why}")


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Make one directory that the group may read; its parent has to be there."""
    try:
        path.mkdir(mode=DIRECTORY_MODE)
    except FileExistsError:
        check_directory(path)
        return
    # The inherited umask must not lock the group out. A chmod that changes nothing
    # is not made: without privilege it may clear the set-group-id bit that was inherited.
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & DIRECTORY_MODE != DIRECTORY_MODE:
        path.chmod(mode | DIRECTORY_MODE)
    sync_directory(path.parent)


def part_of(path: Path) -> Path:
    """Where the file is written before it gets its name."""
    return path.with_name(f".{path.name.lstrip('.')}{PART}")


def open_part(path: Path) -> int:
    """Make the part file of ``path``, never through what stands under its name already."""
    part = part_of(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(part, flags, FILE_MODE)
    except FileExistsError:
        part.unlink()
        return os.open(part, flags, FILE_MODE)


def open_to_group(fd: int) -> None:
    """Let the group read the file, whatever the umask was; one that needs no chmod gets none."""
    if stat.S_IMODE(os.fstat(fd).st_mode) != FILE_MODE:
        # A recorder may not, whose umask is right, and some file systems have their own modes.
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, FILE_MODE)


def write_part(path: Path, content: bytes | memoryview) -> Path:
    """Write and sync the content under the part name of ``path``."""
    fd = open_part(path)
    try:
        open_to_group(fd)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    return part_of(path)


def replace_file(path: Path, content: bytes) -> None:
    """Put the content under ``path``, whole, over whatever was there."""
    part = part_of(path)
    try:
        write_part(path, content)
        part.rename(path)
        sync_directory(path.parent)
    except OSError:
        remove_quietly((part,))
        raise


def remove_quietly(paths: Iterable[Path]) -> None:
    """Remove what can be removed; what is left behind is cleaned up at the next start."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
