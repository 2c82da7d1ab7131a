"""Functions without probes for a while, because a tenant calls them too often.

They rest only in files that nobody else has mapped: when somebody else maps one, its probes come
back. Where several tenants share a file, nothing rests.
"""

import functools
import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from cotenant.agent.helper.fair_queue import ENDED, outermost, tenant_of
from cotenant.agent.protocol.reports import Blind, Rested
from cotenant.probes.inodes import Inode, processes_mapping
from cotenant.probes.plan import Plan

_NONE: frozenset[int] = frozenset()
Foreign = list[tuple[str, int]]  # Tenants, and since when.
Mappers = Callable[[Collection[Inode]], Mapping[Inode, set[str]]]


@dataclass(frozen=True, slots=True)
class _RestingFile:
    """What is without probes in one file, whose, and since when."""

    tenant: str
    functions: frozenset[int]
    families: tuple[str, ...]
    since_ns: int

    def same(self, other: "_RestingFile") -> bool:
        return (self.tenant, self.functions) == (other.tenant, other.functions)


class Resting:
    """Which functions of which files are without probes."""

    def __init__(self, mappers: Mappers) -> None:
        self._mappers = mappers
        self._asked: dict[str, frozenset[int]] = {}
        self._files: dict[Inode, _RestingFile] = {}
        self.number = 0
        self._told: tuple[tuple[Blind, ...], bool] = (), True

    def __bool__(self) -> bool:
        return bool(self._asked or self._files)

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

    def knows(self, number: int) -> bool:
        """Whether anything rests in a file with this inode number."""
        return any(inode.number == number for inode in list(self._files))

    def disturbs(self, number: int, tenant: str) -> bool:
        """Whether this tenant maps a file in which something of another's rests."""
        found = [rest for inode, rest in list(self._files.items()) if inode.number == number]
        return any(rest.tenant != tenant for rest in found)

    def settle(self, inode: Inode, plan: Plan) -> bool:
        """Decide anew what rests in a file, by who has it mapped now; whether that changed it."""
        before = self._files.get(inode)
        chosen = self._chosen(inode, plan) if self._asked else None
        if chosen is not None and before is not None and chosen.same(before):
            return False
        if chosen is not None:
            self._files[inode] = chosen
        else:
            self._files.pop(inode, None)
        return chosen is not None or before is not None

    def _chosen(self, inode: Inode, plan: Plan) -> _RestingFile | None:
        wanted = {p.function.id: str(p.function.family) for p in plan.placed}
        if not any(wanted.keys() & asked for asked in self._asked.values()):
            return None
        tenants = self._mappers([inode])[inode]
        if len(tenants) != 1:
            return None
        (tenant,) = tenants
        functions = self._asked.get(tenant, _NONE) & wanted.keys()
        if not functions:
            return None
        families = tuple(sorted({wanted[number] for number in functions}))
        return _RestingFile(tenant, functions, families, time.monotonic_ns())

    def foreign(self, inode: Inode) -> Foreign:
        """Who else has a resting file mapped, and since when at most."""
        rest = self._files.get(inode)
        if rest is None:
            return []
        tenants = self._mappers([inode])[inode] - {rest.tenant}
        return [(tenant, rest.since_ns) for tenant in tenants]

    def forget(self, inode: Inode) -> None:
        """The file is let go."""
        self._files.pop(inode, None)

    def report(self, *, done: bool) -> Rested:
        """Who is without probes now."""
        since: dict[tuple[str, tuple[str, ...]], int] = {}
        for rest in list(self._files.values()):
            key = rest.tenant, rest.families
            since[key] = min(rest.since_ns, since.get(key, rest.since_ns))
        blind = tuple(Blind(*key, since_ns) for key, since_ns in since.items())
        self._told = blind, done
        return Rested(self.number, done, blind, time.monotonic_ns())

    def news(self, *, done: bool) -> Rested | None:
        """The same, if it says something else than what was reported last."""
        before = self._told
        found = self.report(done=done)
        return found if self._told != before else None


def mappers(code_program: int, inodes: Collection[Inode]) -> dict[Inode, set[str]]:
    """Tenants that have these files mapped as code, besides ourselves."""
    found: dict[Inode, set[str]] = {inode: set() for inode in inodes}
    whose = functools.cache(tenant_of)
    for inode, pid in processes_mapping(code_program, inodes):
        if pid != os.getpid() and whose(pid) != ENDED:
            found[inode].add(whose(pid))
    return found
