"""Before others, for a share of the time: on a busy host a probe must not wait for a CPU.

All threads of the helper alike: one that waits for a CPU and holds the interpreter's lock would
keep the others waiting. What tenants make the helper do beyond its share has no priority.
"""

import contextlib
import os
import time
from collections.abc import Callable
from typing import Final

_NICE: Final = -10
_SHARE: Final = 0.25  # Of one CPU, in the long run.
_BURST_S: Final = 2.0  # Of CPU time, when it was used for nothing before.


def _round_robin(thread: int) -> None:
    os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


def _nice(thread: int) -> None:
    os.setpriority(os.PRIO_PROCESS, thread, _NICE)


def _plain(thread: int) -> None:
    os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, thread, 0)


_WAYS: Final = {"round robin": _round_robin, f"nice {_NICE}": _nice}


class Priority:
    """Raises every thread of this process, and lowers them when they use too much."""

    def __init__(self) -> None:
        self.kind = "none"  # What `sessions` says.
        self._raise: Callable[[int], None] | None = None
        self._raised = False
        self._left_s = _BURST_S
        self._looked = (0.0, 0.0)

    def take(self) -> None:
        """Go before others from now on, as far as this host allows it."""
        for kind, raise_ in _WAYS.items():
            try:
                raise_(0)
            except OSError:
                continue
            self.kind, self._raise = kind, raise_
            self._looked = (time.monotonic(), time.process_time())
            self._set(raise_)
            self._raised = True
            return

    def tend(self) -> None:
        """Count what was used since the last look."""
        if self._raise is None:
            return
        now, used = time.monotonic(), time.process_time()
        gained = (now - self._looked[0]) * _SHARE - (used - self._looked[1])
        self._left_s = max(-_BURST_S, min(_BURST_S, self._left_s + gained))
        self._looked = (now, used)
        if self._raised and self._left_s < 0:
            self._set(_plain)
            self._raised = False
        elif not self._raised and self._left_s > _BURST_S / 2:
            self._set(self._raise)
            self._raised = True

    def _set(self, way: Callable[[int], None]) -> None:
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):  # It may have ended.
                way(int(thread))
