"""Functions without probes for a while, because a tenant calls them too often.

They rest only in files that nobody else has mapped: when somebody else maps one, its probes come
back. Where several tenants share a file, nothing rests. Until the probes are back, whoever maps the
file is without them, and is told to be.
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from cotenant.agent.helper.fair_queue import ENDED, outermost, tenant_of
from cotenant.agent.helper.shown_inodes import may_be
from cotenant.agent.protocol.reports import Blind, Rested
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode, processes_mapping
from cotenant.probes.plan import Plan

_NONE: frozenset[int] = frozenset()
Foreign = list[tuple[str, int]]  # Tenants, and since when.
Mappers = Callable[[Collection[Inode]], Mapping[Inode, set[str]]]
_Whose = tuple[str, tuple[str, ...]]  # A tenant, and families.


@dataclass(frozen=True, slots=True)
class _RestingFile:
    """What is without probes in one file, whose, and since when."""

    tenant: str
    functions: frozenset[int]
    families: tuple[str, ...]
    since_ns: int

    @property
    def whose(self) -> _Whose:
        return self.tenant, self.families

    def same(self, other: "_RestingFile") -> bool:
        return (self.tenant, self.functions) == (other.tenant, other.functions)


@dataclass(slots=True)
class _Unsettled:
    """A file whose probes are not yet as they should be: who is without them, and since when."""

    since: dict[_Whose, int]
    tenants: frozenset[str] = frozenset()  # Who had it mapped at the last look.

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(tenant for tenant, _ in self.since)

    def add(self, rest: _RestingFile) -> None:
        _earliest(self.since, rest.whose, rest.since_ns)


class Resting:
    """Which functions of which files are without probes."""

    def __init__(self, mappers: Mappers) -> None:
        self._mappers = mappers
        self._asked: dict[str, frozenset[int]] = {}
        self._files: dict[Inode, _RestingFile] = {}
        self._unsettled: dict[Inode, _Unsettled] = {}
        self._deciding = threading.Lock()
        self.number = 0
        self._told: tuple[tuple[Blind, ...], bool] = (), True

    def __bool__(self) -> bool:
        return bool(self._asked or self._files or self._unsettled)

    def ask(self, tenants: Mapping[str, tuple[int, ...]], number: int) -> None:
        """By the cgroup of a tenant: what is to rest from now on, and nothing else."""
        self._asked, self.number = {}, number
        for path, functions in tenants.items():
            tenant = outermost(path)
            self._asked[tenant] = self._asked.get(tenant, _NONE) | frozenset(functions)

    def of(self, inode: Inode) -> frozenset[int]:
        """What is without probes in this file."""
        rest = self._files.get(inode)
        return rest.functions if rest else _NONE

    def knows(self, shown: Inode) -> bool:
        """Whether anything is without probes in what may be the file that a record shows."""
        found = (*list(self._files), *list(self._unsettled))
        return any(may_be(shown, inode) for inode in found)

    def disturbs(self, shown: Inode, tenant: str) -> bool:
        """Whether this tenant maps a file in which something of another's is without probes.

        Who has ended maps it no more.
        """
        if tenant == ENDED:
            return False
        resting = [rest for inode, rest in list(self._files.items()) if may_be(shown, inode)]
        owed = [one for inode, one in list(self._unsettled.items()) if may_be(shown, inode)]
        return any(rest.tenant != tenant for rest in resting) or any(
            tenant not in one.tenants for one in owed
        )

    def settle(self, inode: Inode, plan: Plan) -> frozenset[str]:
        """Decide anew what rests in a file, by who has it mapped now.

        Tenants of whom any may bring it about, until one has: those who map it while it is
        another's that rests, or else that other.
        """
        if inode not in self._files and inode not in self._unsettled and not self._wanted(plan):
            return frozenset()
        mapped = frozenset(self._mappers([inode])[inode])
        chosen = self._chosen(mapped, plan)
        with self._deciding:
            before = self._files.pop(inode, None)
            same = chosen is not None and before is not None and chosen.same(before)
            if now := before if same else chosen:
                self._files[inode] = now
            owed = self._unsettled.get(inode)
            if not same and (rest := before or now):
                owed = self._unsettled[inode] = owed or _Unsettled({})
                owed.add(rest)
            if owed is None:
                return frozenset()
            owed.tenants = mapped | owed.owners
            return owed.tenants - owed.owners or owed.owners

    def settled(self, inode: Inode, without: frozenset[int]) -> Foreign:
        """Probes are in place but for these; who else was without them, and since when at most."""
        mapped = self._mappers([inode])[inode]
        with self._deciding:
            if without != self.of(inode) or inode not in self._unsettled:
                return []  # It is decided otherwise by now, or done.
            owed = self._unsettled.pop(inode)
        return [(tenant, min(owed.since.values())) for tenant in mapped - owed.owners]

    def is_settled(self, inode: Inode) -> bool:
        """Whether probes are where they should be in this file."""
        return inode not in self._unsettled

    def _wanted(self, plan: Plan) -> bool:
        functions = {p.function.id for p in plan.placed} if self._asked else _NONE
        return any(functions & asked for asked in self._asked.values())

    def _chosen(self, tenants: frozenset[str], plan: Plan) -> _RestingFile | None:
        if len(tenants) != 1:
            return None
        (tenant,) = tenants
        wanted = {p.function.id: str(p.function.family) for p in plan.placed}
        functions = self._asked.get(tenant, _NONE) & wanted.keys()
        if not functions:
            return None
        families = tuple(sorted({wanted[number] for number in functions}))
        return _RestingFile(tenant, functions, families, time.monotonic_ns())

    def forget(self, inode: Inode) -> None:
        """The file is let go."""
        with self._deciding:
            self._files.pop(inode, None)
            self._unsettled.pop(inode, None)

    def report(self, *, done: bool) -> Rested:
        """Who is without probes now, or may be."""
        since: dict[_Whose, int] = {}
        for rest in list(self._files.values()):
            _earliest(since, rest.whose, rest.since_ns)
        for owed in list(self._unsettled.values()):
            for (owner, families), since_ns in list(owed.since.items()):
                for tenant in owed.tenants | {owner}:
                    _earliest(since, (tenant, families), since_ns)
        blind = tuple(Blind(*key, since_ns) for key, since_ns in since.items())
        self._told = blind, done
        return Rested(self.number, done, blind, time.monotonic_ns())

    def news(self, *, done: bool) -> Rested | None:
        """The same, if it says something else than what was reported last."""
        before = self._told
        found = self.report(done=done)
        return found if self._told != before else None


def _earliest(since: dict[_Whose, int], whose: _Whose, since_ns: int) -> None:
    since[whose] = min(since_ns, since.get(whose, since_ns))


def mappers(code: CodeMappings, inodes: Collection[Inode]) -> dict[Inode, set[str]]:
    """Tenants that have these files mapped as code, besides ourselves."""
    found: dict[Inode, set[str]] = {inode: set() for inode in inodes}
    whose = functools.cache(tenant_of)
    for inode, pid in processes_mapping(code, inodes):
        if pid != os.getpid() and whose(pid) != ENDED:
            found[inode].add(whose(pid))
    return found
