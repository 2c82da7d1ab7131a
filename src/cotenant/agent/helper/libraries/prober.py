"""Places the probes of a file, except where they would harm a process."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.errors import ProbeError
from cotenant.probes.attach import Attacher, Attachment, Placed
from cotenant.probes.changes import Code, TooMany
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode, mappings_of, writable
from cotenant.probes.memory_locks import HeldUp
from cotenant.probes.ucx import EXPECTED

_CHANGED: Final = "a process has changed it in its memory"
_CAME: Final = "UCX changes it in memory, and was loaded here"
# For all processes that map a file: thousands of them.
_LOOK_S: Final = 2.0
_PAUSES_S: Final = (0.002, 0.01, 0.05)  # Between attempts to attach.


@dataclass(slots=True)
class Probes:
    """What sits in one file, and what was left alone."""

    attachment: Attachment = field(default_factory=Attachment)
    exposed: Attachment = field(default_factory=Attachment)  # Where UCX would write.
    left: dict[str, str] = field(default_factory=dict)  # Symbols, and why.
    pids: set[int] = field(default_factory=set)  # Of processes that had the file mapped.
    unreached: set[int] = field(default_factory=set)  # Of those whose code was writable.
    busy: threading.RLock = field(default_factory=threading.RLock)  # While breakpoints come and go.
    sound: set[str] = field(default_factory=set)  # What was left, and is as in the file again.
    void: bool = False  # The file is another by now: nothing of the plan holds.

    @property
    def descriptors(self) -> int:
        """How many it takes."""
        both = (self.attachment, self.exposed)
        return sum(len(one.links) + len(one.events) for one in both)

    @property
    def has_changed(self) -> bool:
        """Whether something is left alone because a process has changed it."""
        return _CHANGED in self.left.values()


class Prober:
    """Knows what processes forbid to probe now; the plan of a file knows what its code forbids."""

    def __init__(self, attacher: Attacher, code: CodeMappings, *, ucx: str) -> None:
        self._attacher = attacher
        self.code = code
        self._room = EXPECTED if ucx == "expected" else None  # Why room is left for UCX, if it is.
        self._changing = threading.Lock()

    def place(self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]) -> None:
        """Probe these functions of a file, and no others from now on.

        New probes come before the old ones go. A call that meets both is one call: programs pass
        over the second entry.
        """
        with probes.busy:
            if not probes.void:
                self._try_to_place(probes, fd, inode, placed)
        if self._room:
            self.make_room(probes, placed)
        if probes.void:
            self.withdraw(probes)

    def _try_to_place(
        self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]
    ) -> None:
        """Several times: one process that ends meanwhile makes the kernel refuse all."""
        for pause_s in (*_PAUSES_S, None):
            try:
                self._place(probes, fd, inode, placed)
            except ProbeError as error:
                if pause_s is None or isinstance(error, TooMany | HeldUp):
                    raise
                time.sleep(pause_s)
            else:
                return

    def _place(self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]) -> None:
        mappings = mappings_of(self.code, inode, fd)
        left = self._exposed(placed) | probes.left
        left |= self._harmful(probes, fd, placed, mappings)
        fresh = [p for p in placed if p.function.symbol not in left]
        unreached = writable(mappings, [p.offset for p in fresh])
        attachment = self._attacher.attach(fd, [p for p in fresh if not p.exposed])
        try:
            exposed = self._attacher.attach(fd, [p for p in fresh if p.exposed])
        except ProbeError:
            self._attacher.remove(attachment)
            raise
        with self._changing:
            old = probes.attachment, probes.exposed
            probes.attachment, probes.exposed, probes.left = attachment, exposed, left
            probes.unreached = unreached
        for each in old:
            self._remove(each)

    def withdraw(self, probes: Probes) -> None:
        """Remove all probes of a file, and let none come back."""
        for each in self.take(probes):
            self._remove(each)

    def take(self, probes: Probes) -> tuple[Attachment, Attachment]:
        """All probes of a file, for the caller to remove; none of them comes back."""
        with self._changing:
            probes.void = True
            old = probes.attachment, probes.exposed
            probes.attachment, probes.exposed = Attachment(), Attachment()
        return old

    def ucx_came(self) -> bool:
        """A process loads UCX: leave room for it from now on; false if there was room already."""
        had, self._room = self._room, self._room or _CAME
        return had is None

    def make_room(self, probes: Probes, placed: Sequence[Placed]) -> bool:
        """Remove probes from where UCX will write; whether there were any."""
        exposed = self._exposed(placed)
        with self._changing:
            new = exposed.keys() - probes.left.keys()
            old, probes.exposed = probes.exposed, Attachment()
            probes.left = exposed | probes.left
        self._remove(old)
        return bool(new)

    def recover(self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]) -> bool:
        """Whether what was changed is as in the file again, at two looks: it is left no more."""
        wanted = [p for p in placed if probes.left.get(p.function.symbol) == _CHANGED]
        with probes.busy:
            if probes.void:
                return False
            mappings = mappings_of(self.code, inode, fd)
            changed = Code(fd, wanted).changed(mappings, _LOOK_S)
        sound = {p.function.symbol for p in wanted if p.offset not in changed}
        again, probes.sound = sound & probes.sound, sound
        with self._changing:
            probes.left = {name: why for name, why in probes.left.items() if name not in again}
        return bool(again)

    def _exposed(self, placed: Sequence[Placed]) -> dict[str, str]:
        why = self._room
        return {p.function.symbol: why for p in placed if p.exposed} if why else {}

    def _remove(self, attachment: Attachment) -> None:
        self._attacher.retire(attachment)
        self._attacher.remove(attachment)

    def harmful(
        self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]
    ) -> dict[str, str]:
        """What else has to be left alone by now, and why."""
        with probes.busy:
            if probes.void:
                return {}
            mappings = mappings_of(self.code, inode, fd)
            return self._harmful(probes, fd, placed, mappings)

    def _harmful(
        self, probes: Probes, fd: int, placed: Sequence[Placed], mappings: npt.NDArray[np.void]
    ) -> dict[str, str]:
        left = self._exposed(placed).keys() | probes.left.keys()
        wanted = [p for p in placed if p.function.symbol not in left]
        if not wanted:
            return {}
        probes.pids = set(mappings["process"].tolist())
        changed = Code(fd, wanted).changed(mappings, _LOOK_S)
        return {p.function.symbol: _CHANGED for p in wanted if p.offset in changed}
