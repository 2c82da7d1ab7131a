"""A file that is probed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from cotenant.agent.helper.libraries.claims import OpenFile, was_rewritten
from cotenant.agent.helper.libraries.prober import Probes
from cotenant.agent.protocol.reports import LibraryReport
from cotenant.probes.function import Library
from cotenant.probes.plan import Plan

_PIDS_MAX: Final = 4096
_PATIENCE_S: Final = 10.0


@dataclass(slots=True)
class ProbedLibrary:
    """One probed file; the descriptor keeps it from being another one."""

    file: OpenFile
    plan: Plan
    probes: Probes = field(default_factory=Probes)
    attached_ns: int = 0
    gap_ns: int | None = None
    unused_since_ns: int | None = None
    watch: int = -1

    @property
    def fd(self) -> int:
        """The file itself, as long as it is held."""
        return self.file.fd

    @property
    def path(self) -> str:
        """Where it was found."""
        return self.file.path

    @property
    def tenant(self) -> str:
        """Who brought it."""
        return self.file.tenant

    @property
    def descriptors(self) -> int:
        """How many it takes."""
        return 1 + self.probes.descriptors

    def describe(self) -> LibraryReport:
        """What ``sessions`` and ``doctor`` say about it."""
        return LibraryReport(
            path=self.path,
            kinds=self.plan.kinds,
            build_id=self.plan.build_id,
            attached=len(self.plan.placed) - len(self.probes.left),
            stepped=self.plan.stepped,
            blind=self.plan.blind_without(self.probes.left),
            refused=self.plan.refused | self.probes.left,
            gap_ns=self.gap_ns,
        )

    def describe_unprobed(self, why: str) -> LibraryReport:
        """The same if no function of it has a probe."""
        blind = str(Library.CUDA) in self.plan.kinds
        about = self.describe()
        return replace(about, attached=0, stepped=0, blind=blind, refused={"*": why})

    def is_rewritten(self) -> bool:
        """Whether the file is another than the one that was planned for."""
        with self.opened() as fd:
            return fd is not None and was_rewritten(replace(self.file, fd=fd))

    @contextmanager
    def opened(self) -> Iterator[int | None]:
        """The file, for who may have to wait for it; None if the plan does not hold any more."""
        with self.probes.busy:  # As long as it is held, the descriptor is this file's.
            fd = None if self.probes.void else os.dup(self.fd)
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def close(self, patience_s: float = _PATIENCE_S) -> None:
        """Hold the file no more; unless somebody is at it, who may wait for it for ever."""
        if self.probes.busy.acquire(timeout=patience_s):
            os.close(self.fd)
            self.probes.busy.release()

    def is_touched(self, pid: int, *, writable: bool) -> bool:
        """Whether a process that maps it may have changed it: not if that is the first time."""
        pids = self.probes.pids
        full = len(pids) >= _PIDS_MAX
        touched = writable or pid in pids or full
        if not full:
            pids.add(pid)
        return touched
