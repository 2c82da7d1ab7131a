"""Files and directories that must not outlive this process, however it ends."""

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Final

_LEFTOVERS: Final[set[str]] = set()
# A signal handler may run while its own thread holds it.
_LOCK: Final = threading.RLock()


class _Ending:
    """Whether the process is about to end: a thread that goes on makes nothing new."""

    now = False


def remember(path: Path | str) -> None:
    """Remove it when a signal ends this process."""
    _LEFTOVERS.add(os.path.abspath(path))


def make_directory(path: Path | str) -> None:
    """Make a private directory and remember it; an OSError if the process is ending."""
    with _LOCK:
        if _Ending.now:
            raise OSError(f"{path}: this process is ending")
        # Before it exists: a signal may come at any moment.
        remember(path)
        try:
            os.mkdir(path, 0o700)
        except OSError:
            forget(path)
            raise


def forget(path: Path | str) -> None:
    """It is gone, or complete."""
    _LEFTOVERS.discard(os.path.abspath(path))


def remove() -> None:
    """Remove everything that was remembered."""
    with _LOCK:
        for path in list(_LEFTOVERS):
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(path)


def end() -> None:
    """The same, for good: other threads make no more directories until the process has ended."""
    with _LOCK:
        _Ending.now = True
        remove()
