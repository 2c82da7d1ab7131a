"""Files and directories that must not outlive this process, however it is told to end."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

_LEFTOVERS: Final[set[str]] = set()


def remember(path: Path | str) -> None:
    """Remove it when a signal ends this process."""
    _LEFTOVERS.add(os.path.abspath(path))


def forget(path: Path | str) -> None:
    """It is gone, or complete."""
    _LEFTOVERS.discard(os.path.abspath(path))


def remove() -> None:
    """Remove all that is left."""
    for path in list(_LEFTOVERS):
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(path)
