"""Places the probes of a file, except where they would harm a process."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cotenant.errors import ProbeError
from cotenant.probes.attach import Attacher, Attachment, Placed
from cotenant.probes.changes import Code
from cotenant.probes.inodes import Inode, mappings_of
from cotenant.probes.plan import held_path
from cotenant.probes.ucx import EXPECTED

_CHANGED: Final = "a process has changed it in its memory"
_CAME: Final = "UCX changes it in memory, and was loaded here"
# For all processes that map a file: thousands of them.
_LOOK_S: Final = 2.0


@dataclass(slots=True)
class Probes:
    """What sits in one file, and what was left alone."""

    attachment: Attachment = field(default_factory=Attachment)
    exposed: Attachment = field(default_factory=Attachment)  # Where UCX would write.
    left: dict[str, str] = field(default_factory=dict)  # Symbols, and why.

    @property
    def descriptors(self) -> int:
        """How many it takes."""
        both = (self.attachment, self.exposed)
        return sum(len(one.links) + len(one.events) for one in both)

    def give(self, holder: Attachment) -> None:
        """Let another hold them."""
        holder.take(self.attachment)
        holder.take(self.exposed)


class Prober:
    """Knows what processes forbid to probe now; the plan of a file knows what its code forbids."""

    def __init__(self, attacher: Attacher, code_program: int, *, ucx: str) -> None:
        self._attacher = attacher
        self.code_program = code_program
        self._room = EXPECTED if ucx == "expected" else None  # Why room is left for UCX, if it is.
        self._changing = threading.Lock()

    def place(self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]) -> None:
        """Probe these functions of a file, and no others from now on.

        New probes come before the old ones go. A call that meets both is one call: programs pass
        over the second entry.
        """
        left = self._exposed(placed) | probes.left
        left |= self.harmful(probes, fd, inode, placed)
        fresh = [p for p in placed if p.function.symbol not in left]
        path = held_path(fd)
        attachment = self._attacher.attach(path, [p for p in fresh if not p.exposed])
        try:
            exposed = self._attacher.attach(path, [p for p in fresh if p.exposed])
        except ProbeError:
            attachment.close()
            raise
        with self._changing:
            old = probes.attachment, probes.exposed
            probes.attachment, probes.exposed, probes.left = attachment, exposed, left
        for each in old:
            self._remove(each)
        if self._room:
            self.make_room(probes, placed)

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

    def _exposed(self, placed: Sequence[Placed]) -> dict[str, str]:
        why = self._room
        return {p.function.symbol: why for p in placed if p.exposed} if why else {}

    def _remove(self, attachment: Attachment) -> None:
        if attachment.links:
            self._attacher.replace(attachment)

    def harmful(
        self, probes: Probes, fd: int, inode: Inode, placed: Sequence[Placed]
    ) -> dict[str, str]:
        """What else has to be left alone by now, and why."""
        left = self._exposed(placed).keys() | probes.left.keys()
        wanted = [p for p in placed if p.function.symbol not in left]
        if not wanted:
            return {}
        mappings = mappings_of(self.code_program, inode)
        changed = Code(fd, wanted).changed(mappings, _LOOK_S)
        return {p.function.symbol: _CHANGED for p in wanted if p.offset in changed}
