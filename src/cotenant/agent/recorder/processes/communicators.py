"""NCCL communicators of every process: an id that all ranks share, and the process's rank.

Tenants choose how many there are. A tenant may have as many as are still free, so that it leaves as
many to others; those of its ended processes are dropped first, then new ones are refused, and
counted.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.recorder.processes.shares import Shares

_PER_PROCESS_MAX: Final = 65536
_MOST: Final = 262_144  # Of all tenants.


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator as one of its ranks knows it; None is unknown."""

    hash: int | None
    rank: int | None = None
    nranks: int | None = None
    name: str | None = None


NOBODY: Final = Communicator(None)


@dataclass(slots=True)
class _ProcessCommunicators:
    """One process's communicators, by address."""

    tenant: str = ""
    at: dict[int, Communicator] = field(default_factory=dict)
    splits: dict[int, int] = field(default_factory=dict)  # Of those that are known.
    lacks: bool = False  # There was no room for one of them.


class Communicators:
    """Learned from the calls that make them; later calls refer to them by address."""

    def __init__(self, whose: Callable[[Process], str] = lambda _: "", most: int = _MOST) -> None:
        """``whose`` says which tenant a process belongs to; empty as long as nobody knows."""
        self._whose = whose
        self._processes: dict[Process, _ProcessCommunicators] = {}
        self._shares = Shares(most)
        self._departed = Departed()
        self.refused: Counter[str] = Counter()  # Those that there was no room for, by tenant.
        self.missed: Counter[str] = Counter()  # How often one was looked for that may be of these.

    def find(self, process: Process, handle: int) -> Communicator:
        """What is known of the communicator at this address."""
        known = self._processes.get(process)
        if known is None:
            return NOBODY
        found = known.at.get(handle, NOBODY)
        # It was refused, or made from one that was, however long ago that was.
        if known.lacks and handle and found.hash is None:
            self.missed[known.tenant] += 1
        return found

    def made(self, process: Process, handle: int, communicator: Communicator) -> None:
        """A call has made this communicator."""
        known = self._of(process)
        before = known.at.get(handle)
        if before is None and not self._make_room(process, known):
            self.refused[known.tenant] += 1
            known.lacks = True
            return
        if before is None:
            self._shares.count(known.tenant, 1)
        elif before.hash != communicator.hash:
            known.splits.pop(handle, None)  # Another one is at its address now.
        known.at[handle] = communicator

    def split(
        self, process: Process, handle: int, parent: int, color: int, name: str | None
    ) -> None:
        """A communicator was made from another: the same on all ranks of one colour.

        Splitting is collective, so its count on one parent is the same on every rank.
        """
        source = self.find(process, parent)
        number = None
        if source.hash is not None:
            splits = self._of(process).splits
            nth = splits.get(parent, 0)
            splits[parent] = nth + 1
            seed = f"{source.hash}/{nth}/{color}".encode()
            number = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "little") >> 1
        self.made(process, handle, Communicator(number, name=name))

    def learned(
        self, process: Process, handle: int, *, rank: int | None, nranks: int | None
    ) -> None:
        """The application asked for its rank, or for how many there are."""
        known = self.find(process, handle)
        if rank is not None:
            known = replace(known, rank=rank)
        if nranks is not None:
            known = replace(known, nranks=nranks)
        self.made(process, handle, known)

    def gone(self, process: Process, tenant: str = "") -> None:
        """The process ended; its last rows may still be on their way."""
        known = self._processes.get(process)
        if known is not None:
            # Accounts and ended processes go by the same name.
            tenant = known.tenant or self._follow(known, tenant)
        if oldest := self._departed.add(process, tenant):
            self._drop(oldest)

    def sweep(self, followed: AbstractSet[Process]) -> None:
        """Let go of processes that ended, of all that the kernel has not ``followed`` since."""
        self._departed.sweep(self._processes, followed, self.gone, self._drop)

    def _of(self, process: Process) -> _ProcessCommunicators:
        known = self._processes.get(process)
        if known is None:
            known = self._processes[process] = _ProcessCommunicators()
        if not known.tenant:
            self._follow(known, self._whose(process))
        return known

    def _follow(self, known: _ProcessCommunicators, tenant: str) -> str:
        """The process turned out to be this tenant's."""
        self._shares.count(known.tenant, -len(known.at))
        self._shares.count(tenant, len(known.at))
        known.tenant = tenant
        return tenant

    def _make_room(self, process: Process, known: _ProcessCommunicators) -> bool:
        """Whether there is room for one more; drops ended processes of the tenant to make it."""
        if len(known.at) >= _PER_PROCESS_MAX:
            return False
        return self._shares.make_room(known.tenant, process, self._departed, self._drop)

    def _drop(self, process: Process) -> None:
        known = self._processes.pop(process, None)
        if known is not None:
            self._shares.count(known.tenant, -len(known.at))
