"""NCCL communicators of every process: an id that all ranks share, and the process's rank."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from cotenant.agent.process import Departed, Process

_PER_PROCESS_MAX: Final = 65536


@dataclass(frozen=True, slots=True)
class Communicator:
    """A communicator as one of its ranks knows it; None is unknown."""

    hash: int | None
    rank: int | None = None
    nranks: int | None = None
    name: str | None = None


NOBODY: Final = Communicator(None)


class Communicators:
    """Learned from the calls that make them; later calls refer to them by address."""

    def __init__(self) -> None:
        self._known: dict[Process, dict[int, Communicator]] = {}
        self._splits: dict[Process, dict[tuple[int, int], int]] = {}
        self._departed = Departed()

    def find(self, process: Process, handle: int) -> Communicator:
        """What is known of the communicator at this address."""
        return self._known.get(process, {}).get(handle, NOBODY)

    def made(self, process: Process, handle: int, communicator: Communicator) -> None:
        """A call has made this communicator."""
        known = self._known.setdefault(process, {})
        if len(known) < _PER_PROCESS_MAX or handle in known:
            known[handle] = communicator

    def split(
        self, process: Process, handle: int, parent: int, color: int, name: str | None
    ) -> None:
        """A communicator was made from another: the same on all ranks of one colour.

        Splitting is collective, so its count on one parent is the same on every rank.
        """
        source = self.find(process, parent)
        number = None
        if source.hash is not None:
            counts = self._splits.setdefault(process, {})
            nth = counts.get((parent, source.hash), 0)
            counts[parent, source.hash] = nth + 1
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

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        if oldest := self._departed.add(process):
            self._known.pop(oldest, None)
            self._splits.pop(oldest, None)
