"""The table ``interference``: how much each tenant slows each other one on a GPU, as observed.

The victim's samples are its spans, of the kind that their operations make them; where hardly any
span repeats, they are held against the device times that its solo spans give. The other's
activity is when it had work on the same GPU. See docs/how/interference.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from cotenant.query.derived.interference.cause import NO_EVIDENCE, TOO_FEW, Waits, cause_of
from cotenant.query.derived.interference.costs import costs
from cotenant.query.derived.interference.gpu import Floats, Gpu, Spans, Tenant, gpus_of
from cotenant.query.derived.interference.samples import HOST_NS, VictimSamples
from cotenant.query.derived.interference.slowdown import (
    EVIDENCE,
    Samples,
    Verdict,
    level_of,
    slowdown,
)
from cotenant.query.derived.intervals import Intervals
from cotenant.query.derived.registry import Ask

SCHEMA: Final = pa.schema(
    [
        ("gpu", pa.string()),
        ("victim", pa.string()),
        ("aggressor", pa.string()),
        ("slowdown", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("p", pa.float64()),
        ("samples", pa.int64()),
        ("cause", pa.string()),
        ("window_start_ns", pa.int64()),
        ("window_end_ns", pa.int64()),
        ("node", pa.string()),
        ("evidence", pa.string()),  # evidence, maybe or none
        ("cost_ns", pa.int64()),  # Of the victim's time queued; parts of several aggressors add up.
    ]
)
# Some spans of a victim, and the part of each beside the other, as samples.
SamplesOf = Callable[[Spans, Floats], Samples]
_MOST_IDLE: Final = 0.5  # Of the other's time queued.
_AT_ONCE: Final = 0.02  # More than this part with a third tenant, and a sample says nothing.


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A victim, another tenant of its GPU, and what the victim's samples say."""

    victim: Tenant
    other: Tenant
    verdict: Verdict


def compute(ask: Ask) -> Any:
    """Every pair of tenants that had work on the same GPU."""
    waits = Waits.of(ask)
    found = []
    for gpu in gpus_of(ask):
        pairs = pairs_of(gpu, partial(VictimSamples, ask, gpu, waits), waits)
        level = level_of(pair.verdict for pair in pairs)
        lost = _costs(gpu, pairs, level, waits)
        found += [_row(gpu, pair, level, waits) | {"cost_ns": lost.get(pair)} for pair in pairs]
    return pa.Table.from_pylist(found, SCHEMA)


def _costs(gpu: Gpu, pairs: list[Pair], level: float, waits: Waits) -> dict[Pair, int]:
    """What there is evidence of, by victim."""
    sure = [pair for pair in pairs if pair.verdict.word(level) == EVIDENCE]
    found: dict[Pair, int] = {}
    involved = {tenant.name: tenant for pair in sure for tenant in (pair.victim, pair.other)}
    queued = {
        name: gpu.within(_Beside.of(gpu, waits, tenant).queued) for name, tenant in involved.items()
    }
    for victim in {pair.victim.name for pair in sure}:
        own = [pair for pair in sure if pair.victim.name == victim]
        others = [(queued[pair.other.name], pair.verdict.slowdown) for pair in own]
        lost = costs(queued[victim], others)
        found |= dict(zip(own, map(round, lost), strict=True))
    return found


def pairs_of(
    gpu: Gpu, samples_of: Callable[[Tenant], SamplesOf], waits: Waits | None = None
) -> list[Pair]:
    """Each tenant as the victim of each other one."""
    others = {tenant.name: _Beside.of(gpu, waits, tenant) for tenant in gpu.tenants}
    return [
        Pair(victim, other, _verdict(gpu, victim, others[other.name], samples))
        for victim in gpu.tenants
        for samples in (samples_of(victim),)
        for other in gpu.tenants
        if victim is not other
    ]


@dataclass(frozen=True, slots=True)
class _Beside:
    """When a tenant had work beside others, and which part of it may be its host's, at most."""

    tenant: Tenant
    queued: Intervals
    idle: float

    @classmethod
    def of(cls, gpu: Gpu, waits: Waits | None, tenant: Tenant) -> Self:
        """Without the time in which its work was done, and its thread waited for a CPU."""
        if waits is None:
            return cls(tenant, tenant.queued, 0.0)
        spans = tenant.spans
        late = waits.before(gpu, tenant.name, spans.start, spans.end)
        done = late > 0
        queued = tenant.queued.without(spans.end[done] - late[done], spans.end[done])
        length = max(float((spans.end - spans.start).sum()), 1.0)
        return cls(tenant, queued, min(HOST_NS * len(late) / length, _MOST_IDLE))


def _verdict(gpu: Gpu, victim: Tenant, other: _Beside, samples: SamplesOf) -> Verdict:
    third = gpu.queued_besides(victim, other.tenant)
    spans = victim.spans
    crowd = third.overlap(spans.start, spans.end) / np.maximum(spans.end - spans.start, 1)
    spans = spans.only(spans.usable & (crowd <= _AT_ONCE))
    part = other.queued.overlap(spans.start, spans.end) / np.maximum(spans.end - spans.start, 1)
    pairs = len(gpu.tenants) * (len(gpu.tenants) - 1)
    return slowdown(samples(spans, part), other.queued, pairs=pairs, other_idle=other.idle)


def _row(gpu: Gpu, pair: Pair, level: float, waits: Waits) -> dict[str, Any]:
    verdict = pair.verdict
    word = verdict.word(level)
    return {
        "gpu": gpu.gpu,
        "victim": pair.victim.name,
        "aggressor": pair.other.name,
        "slowdown": _number(verdict.slowdown),
        "ci_low": _number(verdict.low),
        "ci_high": _number(verdict.high),
        "p": _number(verdict.p),
        "samples": verdict.alone + verdict.shared,
        "cause": _cause(gpu, pair, word, waits),
        "window_start_ns": gpu.moment(gpu.begin),
        "window_end_ns": gpu.moment(gpu.end),
        "node": gpu.node,
        "evidence": word,
    }


def _cause(gpu: Gpu, pair: Pair, word: str, waits: Waits) -> str:
    if not pair.verdict.enough:
        return TOO_FEW
    if word != EVIDENCE:
        return NO_EVIDENCE
    return cause_of(gpu, pair.victim, pair.other, waits)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
