"""Tenants that use a library of which some functions have no probe: those calls are not seen.

They have none where they were refused, and in processes that could write to the code when the
probes came: the kernel passes over these.
"""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from cotenant.agent.helper.fair_queue import OURS, tenant_of
from cotenant.agent.helper.libraries.resting import Mappers
from cotenant.agent.helper.newest import NewestOfEach
from cotenant.agent.helper.shown_inodes import may_be
from cotenant.agent.protocol.reports import Blind, Report, Unprobed
from cotenant.probes.function import Flag, Library
from cotenant.probes.inodes import Inode, number_of
from cotenant.probes.tables import FUNCTIONS

_ALL: Final = "*"
_TOLD_MAX: Final = 1024
_EACH_MAX: Final = 1024  # Files of one tenant.
# These call another function, whose probe makes the row.
_CALL_ANOTHER: Final = frozenset({"ncclBcast", "pncclBcast"})
# Functions whose calls are rows: family and operation. What the runtime does, the driver reports.
_ROWS: Final = {
    f.symbol: (str(f.family), f.op)
    for f in FUNCTIONS
    if (f.library is Library.CUDA and f.flags & Flag.OPERATION)
    or (f.library is Library.NCCL and f.flags & (Flag.OPERATION | Flag.ROW))
    if f.symbol not in _CALL_ANOTHER
}


class _Lacking(NamedTuple):
    """Calls that are missing: of these families all may be, or those of an operation."""

    families: tuple[str, ...]
    op: str = ""


class _Whose(NamedTuple):
    tenant: str
    lacking: _Lacking


@dataclass(frozen=True, slots=True)
class _Unreached:
    """Processes that the probes of a file did not reach, with their tenants."""

    processes: frozenset[tuple[int, str]]
    families: tuple[str, ...]
    since_ns: int

    def whose(self) -> set[_Whose]:
        """Of those that still run."""
        there = {tenant for pid, tenant in self.processes if tenant_of(pid) == tenant}
        return {_Whose(tenant, _Lacking(self.families)) for tenant in there}


class UnprobedFunctions:
    """Tells the recorder whose calls go unseen, and when they do no more."""

    def __init__(self, mappers: Mappers, tell: Callable[[Report], None]) -> None:
        self._mappers = mappers
        self._tell = tell
        self._files: NewestOfEach[Inode, tuple[_Lacking, ...]] = NewestOfEach(_EACH_MAX, number_of)
        self._unreached: dict[Inode, _Unreached] = {}
        self._blind: dict[_Whose, int] = {}
        self._lately: dict[_Whose, int] = {}  # Those that came since the last look began.
        self._looking = threading.Lock()
        self._lock = threading.Lock()

    def consider(
        self,
        inode: Inode,
        refused: Collection[str],
        kinds: Collection[str],
        tenant: str,
        changed: Collection[str] = (),
    ) -> None:
        """These functions of a tenant's file have no probe: a process that maps it may call them.

        Those that a process has ``changed`` may have one later; the others' code forbids it.
        """
        of_rows = {row for symbol, row in _ROWS.items() if symbol in {*refused} - {*changed}}
        families = {_ROWS[symbol][0] for symbol in _ROWS.keys() & {*changed}}
        if _ALL in refused:
            families |= {family for family, _ in _ROWS.values() if family in kinds}
        lacking = [_Lacking((family,), op) for family, op in of_rows if family not in families]
        if families:
            lacking.append(_Lacking(tuple(sorted(families))))
        if lacking:
            self._files.put(tenant, inode, tuple(sorted(lacking)))
            self._look(time.monotonic_ns())
        elif self._files.pop(inode):
            self._look(time.monotonic_ns())

    def unreached(
        self, inode: Inode, pids: Collection[int], kinds: Collection[str], since_ns: int
    ) -> None:
        """Of all processes that have a file mapped, these had no probes placed."""
        families = tuple(sorted({family for family, _ in _ROWS.values()}.intersection(kinds)))
        if pids and families:
            processes = frozenset((pid, tenant_of(pid)) for pid in pids)
            self._unreached[inode] = _Unreached(processes, families, since_ns)
            self._look(since_ns)
        elif self._unreached.pop(inode, None):
            self._look(time.monotonic_ns())

    def shows(self, number: int) -> bool:
        """Whether a file with this inode number has such functions."""
        return self._files.shows(number)

    def __contains__(self, inode: Inode) -> bool:
        return inode in self._files

    def mapped(self, inode: Inode, tenant: str, when_ns: int) -> None:
        """A tenant has mapped a file."""
        found = self._files.get(inode) or ()
        new = [self._is_new(_Whose(tenant, lacking), when_ns) for lacking in found]
        if any(new):
            self._say()

    def may_be_mapped(self, shown: Inode, tenant: str, when_ns: int) -> None:
        """A tenant has mapped a file of which no more is known than what a record shows."""
        for inode, _ in self._files:
            if may_be(shown, inode):
                self.mapped(inode, tenant, when_ns)

    def _is_new(self, whose: _Whose, when_ns: int) -> bool:
        with self._lock:
            if whose in self._blind:
                return False
            self._blind[whose] = self._lately[whose] = when_ns
            return True

    def sweep(self) -> None:
        """See who has such files mapped by now."""
        if len(self._files) or self._unreached:
            self._look(time.monotonic_ns())

    def _look(self, now_ns: int) -> None:
        """Who has which of them mapped now; that takes a while, in which others may come."""
        with self._looking:
            with self._lock:
                self._lately = {}
            found = self._mapped_now() | self._not_reached()
            with self._lock:
                keys = found | self._lately.keys()
                if keys == self._blind.keys():
                    return
                self._blind = {key: self._blind.get(key, now_ns) for key in keys}
        self._say()

    def _mapped_now(self) -> set[_Whose]:
        files = dict(self._files)
        found: set[_Whose] = set()
        for inode, tenants in self._mappers(files).items():
            found |= {_Whose(tenant, each) for tenant in tenants for each in files[inode]}
            if len(tenants) > 1 and self._files.owner(inode) != OURS:
                # Whoever brought it must not be able to have it forgotten, nor anybody but these.
                self._files.put("\n".join(sorted(tenants)), inode, files[inode])
        return found

    def _not_reached(self) -> set[_Whose]:
        found: set[_Whose] = set()
        for inode, unreached in list(self._unreached.items()):
            whose = unreached.whose()
            found |= whose
            if not whose:
                self._unreached.pop(inode, None)
        return found

    def _say(self) -> None:
        blind = [
            Blind(tenant, lacking.families, since_ns, lacking.op)
            for (tenant, lacking), since_ns in list(self._blind.items())
        ]
        self._tell(Unprobed(tuple(blind[:_TOLD_MAX]), time.monotonic_ns()))
