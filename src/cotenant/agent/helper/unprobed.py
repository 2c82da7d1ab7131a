"""Tenants that use a library of which some functions have no probe: those calls are not seen."""

import time
from collections.abc import Callable, Collection
from typing import Final

from cotenant.agent.protocol.reports import Blind, Report, Unprobed
from cotenant.probes.function import Flag, Library
from cotenant.probes.inodes import Inode
from cotenant.probes.tables import FUNCTIONS

_ALL: Final = "*"
_TOLD_MAX: Final = 1024
# Functions whose calls are rows. What the runtime does, the driver tells too.
_ROWS: Final = {
    f.symbol: str(f.family)
    for f in FUNCTIONS
    if (f.library is Library.CUDA and f.flags & Flag.OPERATION)
    or (f.library is Library.NCCL and f.flags & (Flag.OPERATION | Flag.ROW))
}


class UnprobedFunctions:
    """Tells the recorder whose calls go unseen, and when they do no more."""

    def __init__(
        self, mappers: Callable[[Inode], set[str]], tell: Callable[[Report], None]
    ) -> None:
        self._mappers = mappers
        self._tell = tell
        self._files: dict[Inode, tuple[str, ...]] = {}
        self._blind: dict[tuple[str, tuple[str, ...]], int] = {}

    def consider(self, inode: Inode, refused: Collection[str], kinds: Collection[str]) -> None:
        """These functions of a file have no probe: whoever has it mapped may call them."""
        everything = _ALL in refused
        families = {
            family
            for symbol, family in _ROWS.items()
            if symbol in refused or (everything and family in kinds)
        }
        if families and len(self._files) < _TOLD_MAX:
            self._files[inode] = tuple(sorted(families))
            self._look(time.monotonic_ns())
        elif self._files.pop(inode, None):
            self._look(time.monotonic_ns())

    def knows(self, number: int) -> bool:
        """Whether a file with this inode number has such functions."""
        return any(inode.number == number for inode in list(self._files))

    def mapped(self, number: int, tenant: str, when_ns: int) -> None:
        """A tenant has mapped such a file."""
        for inode, families in list(self._files.items()):
            if inode.number == number and (tenant, families) not in self._blind:
                self._blind[tenant, families] = when_ns
                self._say()

    def sweep(self) -> None:
        """Forget files that nobody has mapped any more."""
        if self._files:
            self._look(time.monotonic_ns())

    def _look(self, now_ns: int) -> None:
        """Who has which of them mapped now."""
        found: set[tuple[str, tuple[str, ...]]] = set()
        for inode, families in list(self._files.items()):
            tenants = self._mappers(inode)
            found |= {(tenant, families) for tenant in tenants}
            if not tenants:
                self._files.pop(inode, None)
        if found != self._blind.keys():
            self._blind = {key: self._blind.get(key, now_ns) for key in found}
            self._say()

    def _say(self) -> None:
        blind = [Blind(*key, since_ns) for key, since_ns in list(self._blind.items())]
        self._tell(Unprobed(tuple(blind[:_TOLD_MAX]), time.monotonic_ns()))
