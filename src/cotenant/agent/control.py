"""The page that the recorder shares with running programs, without a system call."""

import mmap
from collections.abc import Iterable
from typing import Final

import numpy as np

from cotenant.agent.channel import Message
from cotenant.schema.layouts import CONTROL

# The part of the ring that is anybody's; the rest is divided among tenants.
_COMMON_PART: Final = 1 / 2
# Room for tenants that come before they are counted.
_NEWCOMERS: Final = 3


class Control:
    """Settings that programs look at each time they run."""

    def __init__(self, fd: int, *, ring_bytes: int) -> None:
        self._page = mmap.mmap(fd, mmap.PAGESIZE)
        self._control = np.frombuffer(self._page, CONTROL, count=1)
        self._ring_bytes = ring_bytes
        self._rests = 0
        self.divide(1)

    def next_window(self) -> None:
        """Maxima of the totals start again."""
        self._control["window"] += 1

    def divide(self, tenants: int) -> None:
        """Give each tenant its part of the ring above the mark."""
        among = max(tenants, 1) + _NEWCOMERS
        mark = int(self._ring_bytes * _COMMON_PART)
        self._control["tenants"] = among
        self._control["share_bytes"] = (self._ring_bytes - mark) // among
        self._control["shed_above"] = mark

    def budget(self, calls: int) -> None:
        """How many calls of a thread are recorded in full each second; 0 is all."""
        self._control["budget_calls"] = calls

    def blind(self) -> None:
        """Probes go or come: until all are there, nobody knows what events time."""
        self._rests += 1
        self._control["blind"] |= 1

    def rest(self, functions: Iterable[int]) -> Message:
        """What to tell the helper, so that just these functions are without probes."""
        self.blind()
        return {"type": "rest", "functions": sorted(functions), "number": self._rests}

    def hear(self, messages: Iterable[Message]) -> None:
        """The helper did what it was told; ``whole`` if no function lacks its probes."""
        for message in messages:
            latest = message["type"] == "rested" and message["number"] == self._rests
            if latest and message["whole"]:
                self._control["blind"] += 1
