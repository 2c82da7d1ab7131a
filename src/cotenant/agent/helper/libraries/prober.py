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

_CHANGED: Final = "a process has changed it in its memory"
# For all processes that map a file: thousands of them.
_LOOK_S: Final = 2.0
_PAUSES_S: Final = (0.002, 0.01, 0.05)  # Between attempts to attach.


@dataclass(slots=True)
class Probes:
    """What sits in one file, and what was left alone."""

    attachment: Attachment = field(default_factory=Attachment)
    left: dict[str, str] = field(default_factory=dict)  # Symbols, and why.
    pids: set[int] = field(default_factory=set)  # Of processes that had the file mapped.
    unreached: set[int] = field(default_factory=set)  # Of those whose code was writable.
    busy: threading.RLock = field(default_factory=threading.RLock)  # While breakpoints come and go.
    sound: set[str] = field(default_factory=set)  # What was left, and is as in the file again.
    void: bool = False  # The file is another by now: nothing of the plan holds.

    @property
    def descriptors(self) -> int:
        """How many it takes."""
        return len(self.attachment.links) + len(self.attachment.events)

    @property
    def has_changed(self) -> bool:
        """Whether something is left alone because a process has changed it."""
        return _CHANGED in self.left.values()


class Prober:
    """Knows what processes forbid to probe now; the plan of a file knows what its code forbids."""

    def __init__(self, attacher: Attacher, code: CodeMappings) -> None:
        self._attacher = attacher
        self.code = code
        self._changing = threading.Lock()

    def place(self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]) -> None:
        """Probe these functions of a file, and no others from now on.

        New probes come before the old ones go. A call that meets both is one call: programs pass
        over the second entry.
        """
        with probes.busy:
            if not probes.void:
                self._try_to_place(probes, fd, inode, placed)
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
        left = probes.left | self._harmful(probes, fd, placed, mappings)
        fresh = [p for p in placed if p.function.symbol not in left]
        unreached = writable(mappings, [p.offset for p in fresh])
        attachment = self._attacher.attach(fd, fresh)
        with self._changing:
            old, probes.attachment, probes.left = probes.attachment, attachment, left
            probes.unreached = unreached
        self._remove(old)

    def withdraw(self, probes: Probes) -> None:
        """Remove all probes of a file, and let none come back."""
        self._remove(self.take(probes))

    def take(self, probes: Probes) -> Attachment:
        """All probes of a file, for the caller to remove; none of them comes back."""
        with self._changing:
            probes.void = True
            old, probes.attachment = probes.attachment, Attachment()
        return old

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
        wanted = [p for p in placed if p.function.symbol not in probes.left]
        if not wanted:
            return {}
        probes.pids = set(mappings["process"].tolist())
        changed = Code(fd, wanted).changed(mappings, _LOOK_S)
        return {p.function.symbol: _CHANGED for p in wanted if p.offset in changed}
