"""A fair queue: tenants are served round-robin, and each has a quota of items that wait.

What tenants do is work for the helper: files that they map, programs that they start. A tenant that
makes much work delays its own only. What it adds beyond its quota is passed over and counted.
"""

import os
import queue
import threading
import time
from collections import Counter, deque
from functools import cache, lru_cache
from typing import Final, Generic, TypeVar

from cotenant.agent.protocol.reports import WorkPassedOver
from cotenant.identity import Owner, parse_line
from cotenant.identity.rows import above
from cotenant.identity.text import lines
from cotenant.identity.walk import mounts

_T = TypeVar("_T")

OURS: Final = ""  # The helper's own work.
MOUNTS: Final = "the host's mounts"
ENDED: Final = "?"  # The owner of processes that ended before they could be asked.
# The owner of those that run, and of which the kernel does not say whose they are: some kernels
# name no cgroup whose path has more than 4096 bytes.
SOMEBODY: Final = "??"

_EACH_MAX: Final = 4096
_ALL_MAX: Final = 32768
# Owners that are no tenants have every other turn: a container's root is mounted first.
_FIRST: Final = (OURS, MOUNTS)
# This many urgent items go before one that is not.
_STREAK: Final = 8
_BYTES_MAX: Final = 65536
_PLACES: Final = (Owner.ROOT, Owner.UNIT, Owner.USER)
_TOLD_MAX: Final = 64
_TELL_EVERY_S: Final = 1.0
_OTHERS: Final = "others"


def tenant_of(pid: int, proc: str = "/proc") -> str:
    """The outermost cgroup that the host made for this process; ENDED if it is gone.

    Not the innermost one: a tenant may make as many of those as it likes.
    """
    try:
        with open(f"{proc}/{pid}/cgroup", "rb") as file:
            raw = file.read(_BYTES_MAX)
    except (FileNotFoundError, ProcessLookupError):
        return ENDED
    except OSError:
        return SOMEBODY
    return _outermost(raw)


def outermost(path: str) -> str:
    """The same for the path of a cgroup."""
    return _outermost(b"0::" + os.fsencode(path))


@lru_cache(1024)
def _outermost(raw: bytes) -> str:
    # Version 2 stands last, and is believed first.
    identities = [parse_line(line) for line in reversed(lines(raw))]
    somebody = [identity for identity in identities if identity.owner not in _PLACES]
    paths = [identity.owner_path for identity in somebody or identities]
    path = next((path for path in paths if path != "/"), "/")
    return _given(path) or path


def _given(path: str) -> str | None:
    """The outermost directory above that belongs to a user: all that is in it is the user's."""
    for place in _hierarchies():
        for directory in above(path):
            try:
                if os.lstat(place + directory).st_uid:
                    return directory
            except OSError:
                break
    return None


@cache
def _hierarchies() -> tuple[str, ...]:
    """Where all of a hierarchy of cgroups is mounted."""
    return tuple(str(mount.directory) for mount in mounts() if mount.root == "/")


class PassedOver:
    """What was not looked at, because a tenant brought too much of it."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()
        self._news = False
        self._told = -_TELL_EVERY_S

    def add(self, what: str, tenant: str, number: int = 1) -> None:
        """This many more of a tenant's items were passed over."""
        with self._lock:
            mine = self._counts.setdefault(what, Counter())
            mine[tenant if tenant in mine or len(mine) < _TOLD_MAX else _OTHERS] += number
            self._news = True

    def take_news(self, *, last: bool = False) -> WorkPassedOver | None:
        """The counts so far, if they changed; at most once a second."""
        now = time.monotonic()
        with self._lock:
            if not self._news or (now < self._told + _TELL_EVERY_S and not last):
                return None
            self._news, self._told = False, now
            return WorkPassedOver({what: dict(mine) for what, mine in self._counts.items()})


class QueueClosed(Exception):
    """Nothing more will be served."""


class FairQueue(Generic[_T]):
    """Serves one item of each tenant in turn, urgent ones first.

    Several may take from it: as long as one is at a tenant's item, the tenant's others wait.
    """

    def __init__(self, each_max: int = _EACH_MAX, all_max: int = _ALL_MAX) -> None:
        # In the order of their turns.
        self._urgent: dict[str, deque[_T]] = {}
        self._other: dict[str, deque[_T]] = {}
        self._served: set[str] = set()
        self._each_max = each_max
        self._all_max = all_max
        self._size = 0
        self._streak = 0
        self._was_first = False
        self._closed = False
        self._changed = threading.Condition()

    def put(self, tenant: str, item: _T, *, urgent: bool = True) -> bool:
        """Add an item; false if its tenant's quota is used up."""
        with self._changed:
            line = self._urgent if urgent else self._other
            mine = line.get(tenant)
            full = mine and (len(mine) >= self._each_max or self._size >= self._all_max)
            if full and tenant != OURS:
                return False
            line.setdefault(tenant, deque()).append(item)
            self._size += 1
            self._changed.notify()
            return True

    def __len__(self) -> int:
        return self._size

    def waiting(self) -> set[str]:
        """Who has items here, and nobody is at any."""
        with self._changed:
            return (self._urgent.keys() | self._other.keys()) - self._served

    def close(self) -> None:
        """Serve nobody any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> tuple[str, _T]:
        """The next item and its tenant; queue.Empty if there is none in time.

        Whoever takes it says when it is done.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._next(), timeout):
                raise queue.Empty
            if self._closed:
                raise QueueClosed
            line, tenant = self._next() or (self._urgent, OURS)
            self._streak = 0 if line is self._other else self._streak + 1
            self._was_first = tenant in _FIRST
            mine = line.pop(tenant)
            item = mine.popleft()
            if mine:
                line[tenant] = mine
            self._size -= 1
            self._served.add(tenant)
            return tenant, item

    def done(self, tenant: str) -> None:
        """What was taken for this tenant is done: its next item may be had."""
        with self._changed:
            self._served.discard(tenant)
            self._changed.notify()

    def _next(self) -> tuple[dict[str, deque[_T]], str] | None:
        """Who is next, and in which line; None if nobody waits but for himself."""
        lines = (self._urgent, self._other)
        for line in reversed(lines) if self._streak >= _STREAK else lines:
            if not self._was_first:
                for first in _FIRST:
                    if first in line and first not in self._served:
                        return line, first
            tenant = next((each for each in line if each not in self._served), None)
            if tenant is not None:
                return line, tenant
        return None
