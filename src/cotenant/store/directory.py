"""Opens a store for writing: create or open it, lock it, remove what a crash left behind."""

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import Final

from cotenant.errors import StoreError
from cotenant.schema import TABLES
from cotenant.store.durable import (
    DIRECTORY_MODE,
    PART,
    make_directory,
    remove_quietly,
    replace_file,
    store_error,
)
from cotenant.store.layout import MANIFESTS, MARK, is_store, mark, node_name
from cotenant.store.ownership import check_directory, check_owner, check_way

LOCK: Final = ".lock-"
SET_GROUP_ID: Final = 0o2000  # What is made below inherits the group.


def _is_ours(name: str) -> bool:
    return name.startswith((LOCK, f".{MARK}")) or name in (MANIFESTS, "lost+found")


def prepare(root: Path, gid: int | None) -> None:
    """Create the store, or check that the directory is one, and is ours."""
    try:
        check_way(root)
        root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        check_way(root)
        check_owner(root.resolve())
        if not is_store(root):
            check_empty(root)
            _give_to_group(root, gid)
            check_empty(root)  # From now on no other recorder writes to it.
            replace_file(root / MARK, mark(time.time_ns()))
        elif gid is not None and root.stat().st_gid != gid:
            _give_to_group(root, gid)
        check_directory(root.resolve())
        make_directory(root / MANIFESTS)
    except FileExistsError as error:
        raise StoreError(f"{root} is a file; name a directory with --store") from error
    except OSError as error:
        raise store_error("open the store", root, error) from error


def check_empty(root: Path) -> None:
    """Raise StoreError if this directory has anything in it but what a store may begin with."""
    if any(not _is_ours(entry.name) for entry in root.iterdir()):
        raise StoreError(
            f"{root} is not empty and not a store; name an empty directory with --store"
        )


def _give_to_group(root: Path, gid: int | None) -> None:
    mode = stat.S_IMODE(root.stat().st_mode)
    wanted = DIRECTORY_MODE | (mode & SET_GROUP_ID if gid is None else 0)
    if gid is not None:
        # Without CAP_CHOWN a file cannot be given to a group that we are not in: it stays ours.
        with contextlib.suppress(PermissionError):
            os.chown(root, -1, gid)
            wanted |= SET_GROUP_ID
    if mode != wanted:
        root.chmod(wanted)


def lock(root: Path, node: str) -> int:
    """Hold the store for this process; the file descriptor to close when done."""
    path = root / f"{LOCK}{node_name(node)}"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise store_error("lock", path, error) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise StoreError(
            f"process {holder} is recording into {root}; stop it or choose another --store"
        ) from error
    except OSError as error:
        os.close(fd)
        raise store_error("lock", path, error) from error
    return fd


def remove_leftovers(root: Path, node: str, keep: set[str]) -> int:
    """Remove this node's unfinished files, and segments that nothing names."""
    gone = [file for file in (root / MANIFESTS).glob(f".{node_name(node)}.*{PART}")]
    for table in TABLES:
        for date in _folders(root, table, "date=*"):
            for folder in _folders(date.parent, date.name, f"node={node_name(node)}"):
                for file in folder.iterdir():
                    if str(file.relative_to(root)) not in keep:
                        gone.append(file)
    remove_quietly(gone)
    return len(gone)


def _folders(place: Path, name: str, pattern: str) -> list[Path]:
    """The directories of this pattern in one; what lies behind a link is not ours to remove."""
    inside = place / name
    if inside.is_symlink():
        return []
    return [path for path in inside.glob(pattern) if path.is_dir() and not path.is_symlink()]
