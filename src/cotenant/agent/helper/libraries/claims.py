"""Which thread looks at which file, and which files need no other look."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, NamedTuple, TypeVar

from cotenant.agent.helper.shown_inodes import is_anonymous
from cotenant.errors import ProbeError
from cotenant.probes.changes import TooMany
from cotenant.probes.elf import NotRead
from cotenant.probes.inodes import Inode
from cotenant.probes.memory_locks import HeldUp

# Files that are no library of ours, remembered so that each is read once.
_STRANGERS_MAX: Final = 65536
_CLAIMED_MAX: Final = 4096
_PATIENCE_S: Final = 1.0  # To read a file takes less, if there is nothing to wait for.
REWRITTEN: Final = "somebody has written to the file"
_L = TypeVar("_L")


class BeingWritten(ProbeError):
    """A file changes while it is looked at."""


# How long not to look at a file again; at one that is whole, and that few have mapped, never.
_SECONDS: Final[dict[type[ProbeError] | type[None], float]] = {
    BeingWritten: 0.2,
    TooMany: 5.0,
    HeldUp: 5.0,
    NotRead: 60.0,
}


def is_final(why: ProbeError) -> bool:
    """Whether a file that was refused for this need not be looked at again."""
    return type(why) not in _SECONDS


class _TurnedAway(NamedTuple):
    """A file that is not looked at again until then, as long as it has this state."""

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
    later: Callable[[], None] = lambda: None  # If it cannot be probed for now.


@dataclass(slots=True)
class Claim:
    """A thread looks at a file for a tenant."""

    tenant: str
    since: float
    mapped_ns: int | None = None
    placing: bool = False
    # Who else had it mapped meanwhile, and when.
    others: list[tuple[str, int]] = field(default_factory=list)

    def take_over(self, held: "Claim") -> None:
        """Whose claim this was has the file mapped no less."""
        self.others += held.others
        if held.mapped_ns is not None:
            self.others.append((held.tenant, held.mapped_ns))


class Claims(Generic[_L]):
    """Each file is looked at by one thread, and once, as long as it stays as it is.

    A thread may wait long, for what its tenant's files have used up of the time for all: then
    whoever else has the file mapped looks at it, too, and who is done first has it probed.
    """

    def __init__(self) -> None:
        # With size and time of change: a file may be looked at while it is being written. By the
        # tenant for whom that holds, if it does not for all.
        self._strangers: OrderedDict[tuple[Inode, str | None], _TurnedAway] = OrderedDict()
        self._claims: dict[Inode, Claim] = {}
        self._claiming = threading.Lock()

    def turned_away(self, inode: Inode, tenant: str) -> list[_TurnedAway]:
        """Why a file need not be looked at for now by this tenant."""
        now = time.monotonic()
        return [one for one in self._of(inode, tenant) if now < one.until]

    def is_stranger(self, inode: Inode, tenant: str) -> bool:
        """Whether a file is none of ours, for good; else whoever wants it may come again."""
        return any(one.until == inf for one in self._of(inode, tenant))

    def _of(self, inode: Inode, tenant: str) -> list[_TurnedAway]:
        found = (self._strangers.get((inode, whose)) for whose in (None, tenant))
        return [one for one in found if one is not None]

    def turn_away(
        self, inode: Inode, file: "OpenFile", why: ProbeError | None = None, *, own: bool = False
    ) -> None:
        """It is no library of ours, or not for a while, as long as its state is this.

        For its tenant only, if that is its ``own`` doing: that it has used up its time says nothing
        of the file. And of what is no disk another may have the same numbers later.
        """
        until = time.monotonic() + _SECONDS.get(type(why), inf)
        own |= isinstance(why, NotRead) or (until == inf and is_anonymous(inode))
        self._strangers[inode, file.tenant if own else None] = _TurnedAway(file.state, until)
        while len(self._strangers) > _STRANGERS_MAX:
            self._strangers.popitem(last=False)

    def claim(
        self,
        inode: Inode,
        state: tuple[int, ...],
        probed: Mapping[Inode, _L],
        tenant: str,
        mapped_ns: int | None,
    ) -> tuple[Claim | None, _L | None]:
        """A claim, if this thread is to look at a file, or the library if it is probed already."""
        now = time.monotonic()
        with self._claiming:
            known = probed.get(inode)
            away = any(one.state == state for one in self.turned_away(inode, tenant))
            if known is not None or away:
                return None, known
            held = self._claims.get(inode)
            if held is None or self._may_take_over(held, tenant, now):
                mine = self._claims[inode] = Claim(tenant, now, mapped_ns)
                if held is not None:
                    mine.take_over(held)
                return mine, None
            if mapped_ns is not None and len(held.others) < _CLAIMED_MAX:
                held.others.append((tenant, mapped_ns))
            return None, None

    def _may_take_over(self, held: Claim, tenant: str, now: float) -> bool:
        return held.tenant != tenant and not held.placing and now - held.since > _PATIENCE_S

    def begin_placing(self, inode: Inode, claim: Claim, probed: Mapping[Inode, _L]) -> bool:
        """Whether nobody else does or has done so; nobody takes the claim over from now on."""
        with self._claiming:
            held = self._claims.get(inode)
            if inode in probed or (held is not None and held.placing):
                return False
            if held is not None and held is not claim:
                claim.take_over(held)
            self._claims[inode] = claim
            claim.placing = True
            return True

    def give_up(self, inode: Inode, claim: Claim) -> list[tuple[str, int]]:
        """This thread is done with a file; who else had it mapped meanwhile, and when."""
        with self._claiming:
            if self._claims.get(inode) is not claim:
                return []
            return self._claims.pop(inode).others


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


def check_unwritten(file: OpenFile) -> None:
    """BeingWritten if a file has other contents than when it was opened."""
    if was_rewritten(file):
        raise BeingWritten(REWRITTEN)
