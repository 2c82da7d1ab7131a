"""A listening socket with a path instead of a port: for whoever may read the store anyway."""

import contextlib
import os
import socket
import stat
from pathlib import Path
from typing import Final

from cotenant.errors import UsageError

_OWNER_ONLY: Final = 0o177  # As a umask, until the group is known.
_GROUP_TOO: Final = 0o660


def bound(path: Path, store: Path) -> socket.socket:
    """Bound there; one that nobody listens on any more is replaced."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _make_room(path)
        before = os.umask(_OWNER_ONLY)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        _give_to_group(path, store)
    except OSError as error:
        listening.close()
        why = error.strerror or error
        raise UsageError(f"cannot listen on {path}: {why}; name another --socket") from error
    except UsageError:
        listening.close()
        raise
    return listening


def _make_room(path: Path) -> None:
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise UsageError(f"{path} is there already, and no socket; name another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise UsageError(f"somebody listens on {path} already; stop them or name another --socket")


def _give_to_group(path: Path, store: Path) -> None:
    """To the store's; where that is not ours to give, only its owner may connect."""
    with contextlib.suppress(PermissionError, FileNotFoundError):
        os.chown(path, -1, store.stat().st_gid)
        path.chmod(_GROUP_TOO)
