"""Whether we wait for a CPU: then nobody can tell what else is waited for."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SELF: Final = Path("/proc/self/task")
_LEVELS: Final = 2  # A file is read by a child of a child.


def runnable() -> bool:
    """Whether another thread of ours, or a process that reads a file for us, could run now."""
    me = str(threading.get_native_id())
    others = [task for task in _SELF.iterdir() if task.name != me]
    return any(_state(place) == "R" for place in (*others, *_below(_SELF, _LEVELS)))


def _below(tasks: Path, levels: int) -> Iterator[Path]:
    for task in _listed(tasks):
        with contextlib.suppress(OSError):  # It ended, or the kernel does not list children.
            for child in (task / "children").read_text().split():
                place = Path("/proc", child)
                yield place
                if levels > 1:
                    yield from _below(place / "task", levels - 1)


def _listed(tasks: Path) -> list[Path]:
    try:
        return [tasks / name for name in os.listdir(tasks)]
    except OSError:
        return []


def _state(place: Path) -> str:
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
