"""Why something went unseen: the reasons of holes in ``losses``, and what each one touches.

A hole is a row of ``losses`` without counts: from when to when, whose, and why. Whose it is may be
unknown; then it may be anybody's.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.schema.events import ENUMS

# A hole is told at most so long after it began.
TOLD_WITHIN_NS: Final = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason as it is stored; what is missing then, if not events; from which tables."""

    name: str
    what: str | None = None
    tables: frozenset[str] | None = None  # None is every table of the family.
    op: str | None = None  # Only rows of this operation, for as long as a library is the same.


LATE: Final = Reason("probes came late")
NEVER: Final = Reason("never probed")
REFUSED: Final = Reason("functions refused")
OVER_BUDGET: Final = Reason("over budget")
NOT_LOOKED_AT: Final = Reason("too much to look at")
MAPPINGS_LOST: Final = Reason("mappings lost")
RUNS_LEFT_OUT: Final = Reason("runs left out by the kernel")
TOO_DEEP: Final = Reason("calls nested too deep")
NO_THREAD: Final = Reason("no room for threads")
NO_REQUEST: Final = Reason("no room for requests")
FACTS_LOST: Final = Reason("facts lost", "names and identities")
UNNAMED: Final = Reason(
    "kernels without a name",
    "names of kernels",
    frozenset({"cuda_events", "graph_kernels", "rollups", "span_mixes"}),
)
MANGLED: Final = Reason("names left mangled", "readable names of kernels", UNNAMED.tables)
NO_TOTAL: Final = Reason("no room for totals", "totals", frozenset({"totals", "losses"}))
# The row is missing, and so is the count of what is missing.
UNSENT: Final = Reason("left out without a total")
NO_ALLOCATION: Final = Reason(
    "no room for allocations", "GPU memory", frozenset({"gpu_memory", "gpu_seconds"})
)
# Captured calls are taken for calls that ran.
NO_CAPTURE: Final = Reason(
    "no room for captures",
    "captured calls",
    frozenset({"cuda_events", "graph_kernels", "rollups", "gpu_seconds", "gpu_overlaps"}),
)
# Launches and copies are counted all the same; how long they kept a GPU busy is not known.
NO_SPAN: Final = Reason(
    "no room for spans",
    "operations in spans",
    frozenset({"spans", "span_mixes", "gpu_seconds", "gpu_overlaps"}),
)

# The call is a row; how long the GPU took for it is not known.
NO_MOMENT: Final = Reason(
    "no room for CUDA events",
    "times that the application took",
    frozenset({"gpu_timings", "cuda_events"}),
)
NO_WAIT: Final = Reason(
    "no room for waits", "who had the CPU meanwhile", frozenset({"cpu_contention"})
)
# The rows are there, as the kernel's.
NO_FLOW: Final = Reason(
    "no room for connections", "segments of closed connections", frozenset({"tcp_events"})
)
# An error of ours: rows of these may be missing, whosever they are.
NOT_SAMPLED: Final = Reason(
    "samples failed",
    "rows of tables that are told once a second",
    frozenset(
        {"cpu_contention", "gpu_memory", "gpu_overlaps", "gpu_seconds", "gpu_timings",
         "graph_kernels", "host_events", "in_flight", "limits", "losses", "rollups", "span_mixes",
         "spans", "totals"}
    ),
)  # fmt: skip

# Tables whose rows say which operation they are.
WITH_OPERATIONS: Final = frozenset(
    {"cuda_events", "nccl_events", "rollups", "rollup_minutes", "rollup_hours"}
)
_OF_CALLS: Final = frozenset(
    {"rollups", "rollup_minutes", "rollup_hours", "totals", "total_minutes", "total_hours",
     "in_flight"}
)  # fmt: skip
# What a tenant holds is made from these alone; where some have no probe it is NULL.
_HOLDING: Final = ("alloc", "free", "map", "pool")
_OF_WORK: Final = frozenset(
    {"gpu_timings", "graph_kernels", "spans", "span_mixes", "gpu_seconds", "gpu_minutes",
     "gpu_hours", "gpu_overlaps", "gpu_overlap_minutes", "gpu_overlap_hours"}
)  # fmt: skip


def _uncovered(family: str, op: str) -> Reason:
    tables = _OF_CALLS | {f"{family}_events"}
    if family == "cuda":
        tables |= {"gpu_memory"} if op in _HOLDING else _OF_WORK
    return Reason(f"no probe for {op}", f"{op} calls", tables, op)


# Coverage: functions of these operations have no probe in a library that the tenant uses.
UNCOVERED: Final = {
    op: _uncovered(family, op)
    for family in ("cuda", "nccl")
    for op in ENUMS[f"{family}_op"].values()
}
COVERAGE: Final = frozenset(reason.name for reason in UNCOVERED.values())

REASONS: Final = {
    reason.name: reason
    for reason in (
        LATE, NEVER, REFUSED, OVER_BUDGET, NOT_LOOKED_AT, MAPPINGS_LOST, RUNS_LEFT_OUT, TOO_DEEP,
        NO_THREAD, NO_REQUEST, FACTS_LOST, UNNAMED, MANGLED, NO_TOTAL, UNSENT,
        NO_ALLOCATION, NO_CAPTURE, NO_SPAN, NO_MOMENT, NO_WAIT, NO_FLOW, NOT_SAMPLED,
        *UNCOVERED.values(),
    )
}  # fmt: skip

# What these may hide, a process does before its first row: one that has rows is probed.
OF_NEW_PROCESSES: Final = (LATE, NEVER, NOT_LOOKED_AT, MAPPINGS_LOST)
