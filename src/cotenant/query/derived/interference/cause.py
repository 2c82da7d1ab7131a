"""Why one tenant slows another: what else was longer while both had work queued."""

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.interference.gpu import Gpu, Spans, Tenant
from cotenant.query.derived.interference.slowdown import SHARED
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of

Floats = NDArray[np.float64]

NO_EVIDENCE: Final = "no evidence"
TOO_FEW: Final = "too few samples"
TIME_SLICING: Final = "time slicing"
SHARED_UNITS: Final = "shared units"  # Under MPS, kernels of both run side by side.
COPIES: Final = "copies"
CPU: Final = "cpu"
NETWORK: Final = "network"

_MOSTLY: Final = 0.5
_NEAR_NS: Final = 100_000  # From a thread's first instruction to the return of its call.
_FEWEST: Final = 5
_ENOUGH: Final = 0.1  # Of the time: what hardly ever runs cannot show that it is not slowed.
_COPY_BYTES_PER_NS: Final = 25.0  # About what a PCIe link moves.
_WAITS: Final = """
select
    tenant,
    node,
    waited_from_ns,
    waited_ns * weight as waited_ns,
    waited_from_ns + waited_ns as until_ns
from cpu_waits
order by tenant, node, waited_from_ns
"""


@dataclass(frozen=True, slots=True)
class Waits:
    """When each tenant's threads were ready to run and had no CPU; and how each shares its GPU."""

    times: dict[tuple[str, str], tuple[NDArray[np.int64], Floats]]
    modes: dict[str, str]
    # The same in the order of their ends: until when, and since when.
    ends: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of(cls, ask: Ask) -> Self:
        """From the store; nothing where the host's scheduler was not recorded."""
        modes = {
            row["tenant"]: row["sharing_mode"]
            for row in ask("select tenant, max(sharing_mode) as sharing_mode from containers "
                           "group by tenant").to_pylist()
            if row["sharing_mode"]
        }  # fmt: skip
        times: dict[tuple[str, str], tuple[NDArray[np.int64], Floats]] = {}
        ends: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        for (tenant, node), rows in groups_of(ask(_WAITS), "tenant", "node"):
            waited = np.cumsum(rows["waited_ns"].to_numpy()).astype(np.float64)
            since, until = rows["waited_from_ns"].to_numpy(), rows["until_ns"].to_numpy()
            times[tenant, node] = (since, waited)
            order = np.argsort(until, kind="stable")
            ends[tenant, node] = (until[order], since[order])
        return cls(times, modes, ends)

    def within(self, gpu: Gpu, tenant: str, start: Floats, end: Floats) -> Floats:
        """How long the tenant's threads waited for a CPU in each interval."""
        if (tenant, gpu.node) not in self.times:
            return np.zeros(len(start))
        moments, waited = self.times[tenant, gpu.node]
        total = np.concatenate([[0.0], waited])
        at = [np.searchsorted(moments, t + gpu.origin) for t in (start, end)]
        within: Floats = total[at[1]] - total[at[0]]
        return within

    def before(self, gpu: Gpu, tenant: str, start: Floats, end: Floats) -> Floats:
        """How long, at the end of each interval, a thread had been waiting for a CPU.

        The wait for the GPU returns when its thread has one: the work was done before.
        """
        if (tenant, gpu.node) not in self.ends:
            return np.zeros(len(end))
        until, since = self.ends[tenant, gpu.node]
        at = np.searchsorted(until, end + gpu.origin + _NEAR_NS) - 1
        last = np.maximum(at, 0)
        ends_there = (at >= 0) & (until[last] >= end + gpu.origin - _NEAR_NS)
        waited = end - np.maximum(since[last] - gpu.origin, start)
        return np.where(ends_there, np.maximum(waited, 0), 0)


def _copy_share(spans: Spans) -> float:
    """About how much of the time in spans is copying."""
    length = float((spans.end - spans.start).sum())
    return float(spans.copied_bytes.sum()) / _COPY_BYTES_PER_NS / max(length, 1.0)


def _excess(spans: Spans, shared: NDArray[np.bool_], alone: NDArray[np.bool_]) -> float:
    """How much longer shared spans are than those of their kind alone, in all."""
    excess = 0.0
    length = spans.end - spans.start
    for kind in np.unique(spans.signature[shared]):
        mine = spans.signature == kind
        if (mine & alone).any():
            usual = float(np.median(length[mine & alone]))
            excess += float((length[mine & shared] - usual).sum())
    return excess


def _by_waits(
    spans: Spans, waited: Floats, shared: NDArray[np.bool_], alone: NDArray[np.bool_]
) -> bool:
    """Whether shared spans usually wait for a CPU for most of what they are longer.

    On a busy host a few waits are as long as all spans together, with the other tenant or without;
    and a span that takes longer has more of them.
    """
    excess = beyond = 0.0
    length = spans.end - spans.start
    for kind in np.unique(spans.signature[shared]):
        of_kind = spans.signature == kind
        here, usual = of_kind & shared, of_kind & alone
        if usual.any():
            longer = float(np.median(length[here])) - float(np.median(length[usual]))
            excess += longer * int(here.sum())
            rate = float(np.median(waited[usual] / np.maximum(length[usual], 1)))
            beyond += float(np.median(waited[here] - rate * length[here])) * int(here.sum())
    return beyond > _MOSTLY * excess > 0


def _only_collectives(
    spans: Spans, shared: NDArray[np.bool_], alone: NDArray[np.bool_], excess: float
) -> bool:
    """Whether spans with collectives are longer, and the others, of which there are enough, not."""
    plain = shared & (spans.collectives == 0)
    length = spans.end - spans.start
    enough = plain.sum() >= _FEWEST and length[plain].sum() >= _ENOUGH * length[shared].sum()
    return bool(enough) and _excess(spans, plain, alone) < (1 - _MOSTLY) * excess


def cause_of(gpu: Gpu, victim: Tenant, other: Tenant, waits: Waits) -> str:
    """The likeliest cause of a slowdown that is there."""
    spans = victim.spans.only(victim.spans.usable)
    part = other.queued.overlap(spans.start, spans.end) / np.maximum(spans.end - spans.start, 1)
    shared, alone = part >= SHARED, part <= 0
    excess = _excess(spans, shared, alone)
    waited = waits.within(gpu, victim.name, spans.start, spans.end)
    if excess > 0 and _by_waits(spans, waited, shared, alone):
        return CPU
    if excess > 0 and _only_collectives(spans, shared, alone, excess):
        return NETWORK
    if _copy_share(spans) > _MOSTLY and _copy_share(other.spans) > _MOSTLY:
        return COPIES
    modes = {waits.modes.get(victim.name), waits.modes.get(other.name)}
    return SHARED_UNITS if "mps" in modes else TIME_SLICING
