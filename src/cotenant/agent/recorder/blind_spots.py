"""What the helper, the kernel's counters and the rows themselves say about what went unseen."""

import time
from collections.abc import Iterable, Mapping
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
from cotenant.schema import holes as why
from cotenant.schema.families import FAMILIES, GPU_FAMILIES

_COUNTED: Final = {
    "totals_full": (why.NO_TOTAL, tuple(FAMILIES)),
    "orphan_rows": (why.NO_TOTAL, tuple(FAMILIES)),
    "deep_call": (why.TOO_DEEP, GPU_FAMILIES),
    "no_thread": (why.NO_THREAD, GPU_FAMILIES),
    "fact_lost": (why.FACTS_LOST, tuple(FAMILIES)),
    "identity_lost": (why.FACTS_LOST, tuple(FAMILIES)),
    "dirty_full": (why.NO_REQUEST, ("io",)),
    "request_full": (why.NO_REQUEST, ("io",)),
    "owners_full": (why.NO_REQUEST, ("io",)),
    "memory_full": (why.NO_ALLOCATION, ("cuda",)),
}
# Maps of which a tenant was refused more, where such a counter has grown.
_OF_TOTALS: Final = frozenset({"totals", "spare_totals"})
_REFUSED_OF: Final = {
    "totals_full": _OF_TOTALS,
    "orphan_rows": _OF_TOTALS,
    "dirty_full": frozenset({"dirtied"}),
    "request_full": frozenset({"requests"}),
    "memory_full": frozenset({"allocations", "holdings", "primaries"}),
}
_FACTS: Final = frozenset({"names", "unread", "facts", "identities"})
_CAPTURES: Final = frozenset({"captures", "members"})
_UNNAMED: Final = "unknown@"
# Work without which a library stays without probes.
_LOOKED_AT: Final = frozenset({"mappings", "libraries", "waiting", "pointers"})
_LOST: Final = "lost"


def _known(tenant: str) -> str | None:
    """The path of a tenant's cgroup; None if nobody knows it."""
    return tenant if tenant.startswith("/") else None


def _grown(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: more for name, number in now.items() if (more := number - before.get(name, 0))}


def _of_maps(refused: Mapping[str, Mapping[str, int]], maps: frozenset[str]) -> set[str | None]:
    """Tenants that were refused room in any of these maps."""
    return {_known(tenant) for name in maps & refused.keys() for tenant in refused[name]}


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
        self._blind: dict[why.Reason, set[tuple[str, tuple[str, ...]]]] = {}

    def attach_gap(self, report: AttachGap) -> None:
        """A tenant called a library before it was probed."""
        begin_ns, end_ns = self._utc(report.begin_ns), self._utc(report.end_ns)
        reason = why.LATE if report.probed else why.NEVER
        families = {"nccl" if kind == "nccl" else "cuda" for kind in report.kinds} or GPU_FAMILIES
        self._holes.add(reason, sorted(families), _known(report.tenant), begin_ns, end_ns)

    def rested(self, report: Rested) -> None:
        """Who is without probes now, because they cost too much."""
        self._told(why.OVER_BUDGET, report.blind, report.done_ns)

    def unprobed(self, report: Unprobed) -> None:
        """Who calls functions now that have no probe."""
        self._told(why.REFUSED, report.blind, report.done_ns)

    def _told(self, reason: why.Reason, blind: Iterable[Blind], done_ns: int) -> None:
        """All of whom something goes unseen for this reason."""
        now = {(one.tenant, one.families): one.since_ns for one in blind}
        for tenant, families in self._blind.get(reason, set()) - now.keys():
            self._holes.close(reason, families, _known(tenant), self._utc(done_ns))
        for (tenant, families), since_ns in now.items():
            self._holes.open(reason, families, _known(tenant), self._utc(since_ns))
        self._blind[reason] = set(now)

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
        lately = {name: _grown(mine, self._refused.get(name, {})) for name, mine in refused.items()}
        for name, more in _grown(counters, self._counters).items():
            if name not in _COUNTED:
                continue
            reason, families = _COUNTED[name]
            whose = _of_maps(lately, _REFUSED_OF.get(name, frozenset()))
            unseen = more if len(whose) < 2 else None
            for tenant in whose or {None}:
                self._holes.add(reason, families, tenant, since_ns, now_ns, unseen)
        for tenant in _of_maps(lately, _CAPTURES):
            self._holes.add(why.NO_CAPTURE, ("cuda",), tenant, since_ns, now_ns)
        for tenant in _of_maps(lately, _FACTS):
            self._holes.add(why.FACTS_LOST, GPU_FAMILIES, tenant, since_ns, now_ns)
        self._counters, self._counted_ns = dict(counters), now_ns
        self._refused = {name: dict(mine) for name, mine in refused.items()}

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
