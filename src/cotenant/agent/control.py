"""The page that the recorder shares with running programs, without a system call."""

import mmap

import numpy as np

from cotenant.schema.layouts import CONTROL


class Control:
    """Settings that programs look at each time they run."""

    def __init__(self, fd: int) -> None:
        self._page = mmap.mmap(fd, mmap.PAGESIZE)
        self._control = np.frombuffer(self._page, CONTROL, count=1)

    def next_window(self) -> None:
        """Maxima of the totals start again."""
        self._control["window"] += 1
