"""Which files are probed: by their inode, and by what records of mappings show of it."""

import os
import time

from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.helper.shown_inodes import may_be
from cotenant.probes.inodes import Inode


class ProbedFiles(dict[Inode, ProbedLibrary]):
    """Libraries by inode; others may look while one is added or let go."""

    def __init__(self) -> None:
        super().__init__()
        self._by_number: dict[int, tuple[tuple[Inode, ProbedLibrary], ...]] = {}

    def add(self, inode: Inode, library: ProbedLibrary) -> None:
        """It is probed from now on."""
        self[inode] = library
        others = self._without(inode)
        self._by_number[inode.number] = (*others, (inode, library))

    def let_go(self, inode: Inode) -> ProbedLibrary:
        """It is probed no more."""
        others = self._without(inode)
        if others:
            self._by_number[inode.number] = others
        else:
            self._by_number.pop(inode.number, None)
        return self.pop(inode)

    def numbered(self, number: int) -> tuple[tuple[Inode, ProbedLibrary], ...]:
        """Those whose inode has this number, on whatever device."""
        return self._by_number.get(number, ())

    def shown(self, shown: Inode) -> list[tuple[Inode, ProbedLibrary]]:
        """Those of which any may be the file that a record shows."""
        return [one for one in self.numbered(shown.number) if may_be(shown, one[0])]

    def named(self, shown: Inode, path: str) -> list[ProbedLibrary]:
        """The file that a record shows; where that is not sure, those with this name."""
        if exact := self.get(shown):
            return [exact]
        name = os.path.basename(path)
        return [one for _, one in self.shown(shown) if os.path.basename(one.path) == name]

    def touched(self, pid: int, shown: Inode, *, writable: bool) -> bool:
        """Whether a process that maps one of them may have changed it."""
        return any([one.is_touched(pid, writable=writable) for _, one in self.shown(shown)])

    def unused(self, mapped: set[Inode], linger_ns: int) -> set[Inode]:
        """Those that nobody has mapped for so long; what the host has is kept."""
        now = time.monotonic_ns()
        found = set()
        for inode, library in list(self.items()):
            if inode in mapped or library.file.host:
                library.unused_since_ns = None
            elif library.unused_since_ns is None:
                library.unused_since_ns = now
            elif now - library.unused_since_ns >= linger_ns:
                found.add(inode)
        return found

    def _without(self, inode: Inode) -> tuple[tuple[Inode, ProbedLibrary], ...]:
        return tuple(one for one in self.numbered(inode.number) if one[0] != inode)
