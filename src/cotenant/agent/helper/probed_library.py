"""A file that is probed."""

from dataclasses import dataclass, field

from cotenant.agent.helper.discovery.fair_queue import OURS
from cotenant.agent.helper.prober import Probes
from cotenant.agent.protocol.reports import LibraryReport
from cotenant.probes.plan import Plan


@dataclass(slots=True)
class ProbedLibrary:
    """One probed file; the descriptor keeps it from changing under us."""

    fd: int
    path: str
    plan: Plan
    probes: Probes = field(default_factory=Probes)
    attached_ns: int = 0
    gap_ns: int | None = None
    unused_since_ns: int | None = None
    host: bool = False
    tenant: str = OURS  # Who brought it.

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
