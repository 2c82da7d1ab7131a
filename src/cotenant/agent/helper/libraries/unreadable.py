"""ELF files that could not be read: whoever maps one may call what nobody sees.

What they are is known by their name alone. A tenant may bring such files without end.
"""

import os
from collections.abc import Callable
from typing import Final

from cotenant.agent.helper.discovery.directories import looks_like_library
from cotenant.agent.helper.fair_queue import OURS, PassedOver
from cotenant.agent.helper.libraries.claims import OpenFile
from cotenant.agent.helper.libraries.unprobed import UnprobedFunctions
from cotenant.agent.helper.newest import NewestOfEach
from cotenant.agent.protocol.reports import LibraryReport
from cotenant.probes.elf import BadElf, NotRead
from cotenant.probes.function import Library
from cotenant.probes.inodes import Inode, number_of

_TOLD_MAX: Final = 16  # Of one tenant.
_COUNTED_MAX: Final = 4096
# By how a name begins, and in this order. PyTorch has the other two in its own, at times.
_KINDS: Final = {
    "libcudart": (Library.CUDART,),
    "libcuda": (Library.CUDA,),
    "libnccl": (Library.NCCL,),
    "libtorch_cuda": (Library.CUDART, Library.NCCL),
}

TellLibrary = Callable[[str, LibraryReport], None]


def kinds_by_name(path: str) -> tuple[str, ...]:
    """What a library is if its name is true; nothing if it is called like none of ours."""
    if not looks_like_library(path):
        return ()
    name = os.path.basename(path).removeprefix("memfd:")
    kinds = (kinds for stem, kinds in _KINDS.items() if name.startswith(stem))
    return tuple(map(str, next(kinds, ())))


class UnreadableFiles:
    """Tells of those that may be ours, a few of each tenant."""

    def __init__(
        self, tell: TellLibrary, unprobed: UnprobedFunctions, passed_over: PassedOver
    ) -> None:
        self._tell = tell
        self._unprobed = unprobed
        self._passed_over = passed_over
        self._told: dict[str, set[Inode]] = {}
        self._counted: NewestOfEach[Inode, None] = NewestOfEach(_COUNTED_MAX, number_of)

    def found(self, inode: Inode, file: OpenFile, why: BadElf) -> bool | None:
        """Such a file: true if nobody need look at it again as long as it is the same.

        False if that holds for its tenant alone, which has had its share, and None for nobody.

        Of what only the host's search has found, beyond a few, it is told when a tenant maps it.
        """
        kinds = kinds_by_name(file.path)
        mine = self._told.setdefault(file.tenant, set()) if kinds else set()
        told = not kinds or inode in mine
        full = not told and len(mine) >= _TOLD_MAX
        if full or isinstance(why, NotRead):
            self._count(inode, file.tenant)
        if full:
            return None if file.tenant == OURS else False
        if not told:
            mine.add(inode)
            blind = str(Library.CUDA) in kinds
            about = LibraryReport(file.path, 0, {"*": str(why)}, kinds, blind=blind)
            self._tell(file.tenant, about)
        if not told or (kinds and inode not in self._unprobed):
            self._unprobed.consider(inode, ("*",), kinds, file.tenant)
        return True

    def _count(self, inode: Inode, tenant: str) -> None:
        """Its tenant's answers say that something was not looked at, and nobody else's do."""
        if tenant.startswith("/") and inode not in self._counted:
            self._counted.put(tenant, inode, None)
            self._passed_over.add("libraries", tenant)
