"""Which thread looks at which file, and which files need no other look."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from cotenant.errors import ProbeError
from cotenant.probes.changes import TooMany
from cotenant.probes.elf import NotRead
from cotenant.probes.inodes import Inode

# Files that are no library of ours, remembered so that each is read once.
_STRANGERS_MAX: Final = 65536
_CLAIMED_MAX: Final = 4096
_L = TypeVar("_L")


class BeingWritten(ProbeError):
    """A file changes while it is looked at."""


# How long not to look at a file again; at one that is whole, and that few have mapped, never.
_SECONDS: Final[dict[type[ProbeError] | type[None], float]] = {
    BeingWritten: 0.2,
    TooMany: 5.0,
    NotRead: 60.0,
}


class _TurnedAway(NamedTuple):
    """A file that is not looked at again until then."""

    state: tuple[int, ...]
    until: float


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that may be a library of ours, as somebody brought it."""

    fd: int
    path: str
    tenant: str
    state: tuple[int, ...]
    mapped_ns: int | None  # From then on, calls went unseen.
    host: bool


class Claims(Generic[_L]):
    """Each file is looked at by one thread, and once, as long as it stays as it is."""

    def __init__(self) -> None:
        # With size and time of change: a file may be looked at while it is being written.
        self._strangers: OrderedDict[Inode, _TurnedAway] = OrderedDict()
        # Files that a thread is at, and who else had them mapped meanwhile, and when.
        self._claims: dict[Inode, list[tuple[str, int]]] = {}
        self._claiming = threading.Lock()

    def __contains__(self, inode: Inode) -> bool:
        stranger = self._strangers.get(inode)
        return stranger is not None and time.monotonic() < stranger.until

    def turn_away(
        self, inode: Inode, state: tuple[int, ...], why: ProbeError | None = None
    ) -> None:
        """It is no library of ours, or not for a while, as long as its state is this."""
        until = time.monotonic() + _SECONDS.get(type(why), inf)
        self._strangers[inode] = _TurnedAway(state, until)
        while len(self._strangers) > _STRANGERS_MAX:
            self._strangers.popitem(last=False)

    def claim(
        self,
        inode: Inode,
        state: tuple[int, ...],
        probed: Mapping[Inode, _L],
        tenant: str,
        mapped_ns: int | None,
    ) -> tuple[bool, _L | None]:
        """Whether this thread is to look at a file, and the library if it is probed already."""
        with self._claiming:
            known = probed.get(inode)
            if known is not None or (inode in self and self._strangers[inode].state == state):
                return False, known
            if inode not in self._claims:
                self._claims[inode] = []
                return True, None
            if mapped_ns is not None and len(self._claims[inode]) < _CLAIMED_MAX:
                self._claims[inode].append((tenant, mapped_ns))
            return False, None

    def give_up(self, inode: Inode) -> list[tuple[str, int]]:
        """This thread is done with a file; who else had it mapped meanwhile, and when."""
        with self._claiming:
            return self._claims.pop(inode)


def file_state(fd: int) -> tuple[int, ...]:
    """What changes when somebody writes to a file."""
    about = os.fstat(fd)
    # Nobody can set the time of the last change as he likes.
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns


def was_rewritten(file: OpenFile) -> bool:
    """Whether a file has other contents than when it was opened, or does not say.

    To remove or rename it changes its last time only.
    """
    try:
        return file_state(file.fd)[:2] != file.state[:2]
    except OSError:
        return True
