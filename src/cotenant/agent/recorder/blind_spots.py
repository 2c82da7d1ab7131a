"""What the helper, the kernel's counters and the rows themselves say about what went unseen."""

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.agent.protocol.reports import (
    AttachGap,
    Blind,
    Rested,
    RunsMissed,
    Unprobed,
    WorkPassedOver,
)
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.identity.tenant import KERNEL
from cotenant.schema import holes as why
from cotenant.schema.families import FAMILIES, GPU_FAMILIES

# What there was no room for at all: nobody knows whose it was.
_COUNTED: Final = {
    "no_thread": (why.NO_THREAD, GPU_FAMILIES),
    "no_sched": (why.NO_THREAD, ("host",)),
    "fact_lost": (why.FACTS_LOST, tuple(FAMILIES)),
    "identity_lost": (why.FACTS_LOST, tuple(FAMILIES)),
    "request_full": (why.NO_REQUEST, ("io",)),
}
# What a tenant had no room for. Of births, nothing is missing: mappings are told by themselves.
_REFUSED: Final = {
    "frames": (why.TOO_DEEP, GPU_FAMILIES),
    "uncounted": (why.NO_TOTAL, tuple(FAMILIES)),
    "unsent": (why.UNSENT, tuple(FAMILIES)),
    "dirtied": (why.NO_REQUEST, ("io",)),
    "requests": (why.NO_REQUEST, ("io",)),
    "bios": (why.NO_REQUEST, ("io",)),
    "owners": (why.NO_REQUEST, ("io",)),
    "closed_flows": (why.NO_FLOW, ("tcp",)),
    "contention": (why.NO_WAIT, ("host",)),
    "allocations": (why.NO_ALLOCATION, ("cuda",)),
    "holdings": (why.NO_ALLOCATION, ("cuda",)),
    "primaries": (why.NO_ALLOCATION, ("cuda",)),
    "captures": (why.NO_CAPTURE, ("cuda",)),
    "members": (why.NO_CAPTURE, ("cuda",)),
    "moments": (why.NO_MOMENT, ("cuda",)),
    "spans": (why.NO_SPAN, ("cuda",)),
    "processes": (why.FACTS_LOST, GPU_FAMILIES),
    "names": (why.FACTS_LOST, GPU_FAMILIES),
    "unread": (why.FACTS_LOST, GPU_FAMILIES),
    "facts": (why.FACTS_LOST, GPU_FAMILIES),
    "identities": (why.FACTS_LOST, GPU_FAMILIES),
    "graphs": (why.FACTS_LOST, GPU_FAMILIES),
    "communicators": (why.FACTS_LOST, GPU_FAMILIES),
    "communicators_missed": (why.FACTS_LOST, ("nccl",)),
    "contexts": (why.FACTS_LOST, GPU_FAMILIES),
    "mangled": (why.MANGLED, ("cuda",)),
}
# Of these as many were refused as are missing; behind one of the others may be any number.
_ONE_EACH: Final = frozenset(
    {"frames", "uncounted", "unsent", "requests", "allocations", "moments", "spans", "names",
     "unread", "facts", "identities", "communicators"}
)  # fmt: skip
_UNNAMED: Final = "unknown@"
# Work without which a library stays without probes.
_LOOKED_AT: Final = frozenset({"mappings", "libraries", "waiting", "pointers"})
_LOST: Final = "lost"


def _known(tenant: str) -> str | None:
    """The path of a tenant's cgroup, or the kernel; None if nobody knows it."""
    return tenant if tenant.startswith("/") or tenant == KERNEL else None


def _grown(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: more for name, n in now.items() if (more := n - before.get(name, 0)) > 0}


class BlindSpots:
    """Turns them into holes."""

    def __init__(self, holes: Holes, clock: WallClock) -> None:
        self._holes = holes
        self._clock = clock
        self._counters: dict[str, int] = {}
        self._counted_ns: int | None = None
        self._refused: dict[str, dict[str, int]] = {}
        self._missed: dict[str, int] = {}
        self._looked_ns = time.time_ns()
        self._mappings_lost = 0
        self._passed_over_ns = time.time_ns()
        self._learned_ns = time.time_ns()
        self._blind: dict[str, set[tuple[why.Reason, str, tuple[str, ...]]]] = {}

    def attach_gap(self, report: AttachGap) -> None:
        """A tenant called a library before it was probed."""
        begin_ns, end_ns = self._utc(report.begin_ns), self._utc(report.end_ns)
        reason = why.LATE if report.probed else why.NEVER
        families = {"nccl" if kind == "nccl" else "cuda" for kind in report.kinds} or GPU_FAMILIES
        self._holes.add(reason, sorted(families), _known(report.tenant), begin_ns, end_ns)

    def rested(self, report: Rested) -> None:
        """Who is without probes now, because they cost too much."""
        self._told("rested", {one: why.OVER_BUDGET for one in report.blind}, report.done_ns)

    def unprobed(self, report: Unprobed) -> None:
        """Who calls functions now that have no probe."""
        blind = {one: why.UNCOVERED.get(one.op, why.REFUSED) for one in report.blind}
        self._told("unprobed", blind, report.done_ns)

    def _told(self, report: str, blind: Mapping[Blind, why.Reason], done_ns: int) -> None:
        """All of whom something goes unseen by this report."""
        now = {(reason, one.tenant, one.families): one.since_ns for one, reason in blind.items()}
        for reason, tenant, families in self._blind.get(report, set()) - now.keys():
            self._holes.close(reason, families, _known(tenant), self._utc(done_ns))
        for (reason, tenant, families), since_ns in now.items():
            self._holes.open(reason, families, _known(tenant), self._utc(since_ns))
        self._blind[report] = set(now)

    def passed_over(self, report: WorkPassedOver) -> None:
        """Tenants that brought more to look at than is looked at for one."""
        now_ns = time.time_ns()
        for what in _LOOKED_AT & report.counts.keys():
            for tenant in report.counts[what].keys() - {_LOST}:
                self._holes.open(why.NOT_LOOKED_AT, GPU_FAMILIES, _known(tenant), now_ns)
        lost = report.counts.get("mappings", {}).get(_LOST, 0)
        if more := lost - self._mappings_lost:
            # What is still mapped was looked for since.
            since_ns = self._passed_over_ns
            self._holes.add(why.MAPPINGS_LOST, GPU_FAMILIES, None, since_ns, now_ns, more)
        self._mappings_lost, self._passed_over_ns = lost, now_ns

    def _utc(self, monotonic_ns: int) -> int:
        return int(self._clock.utc(np.array([monotonic_ns], np.int64))[0])

    def counted(
        self, counters: Mapping[str, int], refused: Mapping[str, Mapping[str, int]], now_ns: int
    ) -> None:
        """What there was no room for so far, by the kernel's counters, and by map and tenant."""
        since_ns = now_ns if self._counted_ns is None else self._counted_ns
        for name, more in _grown(counters, self._counters).items():
            if name in _COUNTED:
                reason, families = _COUNTED[name]
                self._holes.add(reason, families, None, since_ns, now_ns, more)
        for name, (reason, families) in _REFUSED.items():
            before = self._refused.get(name, {})
            for path, more in _grown(refused.get(name, {}), before).items():
                unseen = more if name in _ONE_EACH else None
                self._holes.add(reason, families, _known(path), since_ns, now_ns, unseen)
        self._counters, self._counted_ns = dict(counters), now_ns
        self._refused = {name: dict(mine) for name, mine in refused.items()}

    def facts_left_out(self, tenants: Mapping[str, int], *, more: bool) -> None:
        """Tenants that told too much, and how much; whose some was may be known only later."""
        now_ns = time.time_ns()
        for tenant, lost in tenants.items():
            since_ns = self._learned_ns
            self._holes.add(why.FACTS_LOST, GPU_FAMILIES, _known(tenant), since_ns, now_ns, lost)
        if not more:
            self._learned_ns = now_ns

    def runs_missed(self, report: RunsMissed) -> None:
        """Programs that the kernel did not run each time, and how often so far."""
        now_ns = time.time_ns()
        for program, times in report.programs.items():
            family = program.partition("_")[0]
            reason, families = (
                (why.RUNS_LEFT_OUT, (family,))
                if family in FAMILIES
                else (why.FACTS_LOST, tuple(FAMILIES))
            )
            more = times - self._missed.get(program, 0)
            self._holes.add(reason, families, None, self._looked_ns, now_ns, more)
        self._missed, self._looked_ns = dict(report.programs), now_ns

    def unnamed(self, rows: Any) -> None:
        """Rows of kernels that nobody could name."""
        if "kernel_name" not in rows.column_names:
            return
        names = rows.column("kernel_name").combine_chunks().dictionary_encode()
        nameless = pc.starts_with(names.dictionary, _UNNAMED)
        if not pc.any(nameless).as_py():
            return
        chosen = rows.filter(pc.take(nameless, names.indices))
        found = (
            pa.table(
                {name: chosen.column(name) for name in ("cgroup_id", "timestamp_ns", "weight")}
            )
            .group_by("cgroup_id")
            .aggregate([("timestamp_ns", "min_max"), ("weight", "sum")])
        )
        for row in found.to_pylist():
            times = row["timestamp_ns_min_max"]
            self._holes.add(
                why.UNNAMED, ("cuda",), row["cgroup_id"], times["min"], times["max"],
                row["weight_sum"],
            )  # fmt: skip
