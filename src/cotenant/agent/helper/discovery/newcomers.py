"""Processes that may come to a root of their own: each is looked at several times in its first
second.

A container's root appears some time after its first process has entered the cgroup. Most programs
start in the host's own mounts and stay there. To see that takes one call for each, and no thread.
"""

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from cotenant.agent.helper.discovery.mounts import mount_namespace
from cotenant.agent.helper.discovery.root_search import RootSearch, Steps
from cotenant.agent.helper.fair_queue import tenant_of
from cotenant.agent.helper.timetable import Timetable

_CHAINS_MAX: Final = 65536
_LOOK_AGAIN_S: Final = (0.0, 0.003, 0.008, 0.02, 0.04, 0.07, 0.12, 0.2, 0.4, 0.8)


@dataclass(frozen=True, slots=True)
class Look:
    """Search the root of this process, and again later."""

    pid: int
    chain: int
    attempt: int = 0


class Newcomers:
    """Has the roots of new processes searched."""

    def __init__(
        self,
        roots: RootSearch,
        timetable: Timetable,
        put: Callable[[str, Any, str], None],
        put_later: Callable[[str, Steps], None],
    ) -> None:
        self._roots = roots
        self._timetable = timetable
        self._put = put
        self._put_later = put_later
        self._order = itertools.count()
        self._chains: dict[int, int] = {}
        # Those in the host's own mounts: time, pid and chain, by their next attempt.
        self._at_home: list[deque[tuple[float, int, int]]] = [deque() for _ in _LOOK_AGAIN_S]

    def entered(self, pid: int) -> None:
        """A process entered a new cgroup, or started a program in mounts of its own."""
        self._put(tenant_of(pid), Look(pid, self._begin(pid)), "looks")

    def started(self, pid: int) -> None:
        """A process started a program in the host's own mounts."""
        self._at_home[1].append((time.monotonic() + _until(1), pid, self._begin(pid)))

    def _begin(self, pid: int) -> int:
        # This search replaces those that were due after an earlier step of the process.
        self._chains.pop(pid, None)
        chain = self._chains[pid] = next(self._order)
        while len(self._chains) > _CHAINS_MAX:
            del self._chains[next(iter(self._chains))]
        return chain

    def patience_s(self) -> float:
        """Until the next of those at home is due."""
        due = min((line[0][0] for line in self._at_home if line), default=float("inf"))
        return max(0.0, due - time.monotonic())

    def tend(self) -> None:
        """See which of those at home have left it."""
        now = time.monotonic()
        for attempt, line in enumerate(self._at_home):
            while line and line[0][0] <= now:
                _, pid, chain = line.popleft()
                self._see(pid, chain, attempt, now)

    def _see(self, pid: int, chain: int, attempt: int, now: float) -> None:
        if self._chains.get(pid) != chain:
            return
        try:
            at_home = mount_namespace(pid) == self._roots.home
        except OSError:
            self._chains.pop(pid, None)
            return
        if not at_home:
            self._put(tenant_of(pid), Look(pid, chain, attempt), "looks")
        elif attempt + 1 < len(_LOOK_AGAIN_S):
            self._at_home[attempt + 1].append((now + _until(attempt + 1), pid, chain))
        else:
            self._search_job(pid, tenant_of(pid))

    def look(self, tenant: str, look: Look, advance: Callable[[str, Steps], None]) -> None:
        """Search now, and again later."""
        if self._chains.get(look.pid) != look.chain:
            return
        advance(tenant, self._roots.process(look.pid, tenant))
        again = replace(look, attempt=look.attempt + 1)
        if again.attempt < len(_LOOK_AGAIN_S):
            self._timetable.add(
                _until(again.attempt), functools.partial(self._put, tenant, again, "looks")
            )
        else:
            self._search_job(look.pid, tenant)

    def _search_job(self, pid: int, tenant: str) -> None:
        # A process that ran this long is a job. What it maps goes before what it may map.
        self._put_later(tenant, self._roots.job(pid, tenant))


def _until(attempt: int) -> float:
    """From the attempt before to this one."""
    return _LOOK_AGAIN_S[attempt] - _LOOK_AGAIN_S[attempt - 1]
