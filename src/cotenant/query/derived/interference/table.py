"""The table ``interference``: how much each tenant slows each other one on a GPU, as observed.

The victim's samples are its spans, of the kind that their operations make them; where hardly any
span repeats, they are held against the device times that its solo spans give. The other's
activity is when it had work on the same GPU. See docs/how/interference.md.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.derived.interference.cause import NO_EVIDENCE, TOO_FEW, Waits, cause_of
from cotenant.query.derived.interference.gpu import Gpu, Tenant, gpus_of, samples_of
from cotenant.query.derived.interference.slowdown import Verdict, slowdown
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
    ]
)
_AT_ONCE: Final = 0.02  # More than this part with a third tenant, and a sample says nothing.


def compute(ask: Ask) -> Any:
    """Every pair of tenants that had work on the same GPU."""
    waits = Waits.of(ask)
    found = []
    for gpu in gpus_of(ask):
        for victim in gpu.tenants:
            for other in gpu.tenants:
                if victim is not other:
                    found.append(_row(ask, gpu, victim, other, waits))
    return pa.Table.from_pylist(found, SCHEMA)


def _row(ask: Ask, gpu: Gpu, victim: Tenant, other: Tenant, waits: Waits) -> dict[str, Any]:
    third = gpu.busy_besides(victim, other)
    spans = victim.spans
    crowd = third.overlap(spans.start, spans.end) / np.maximum(spans.end - spans.start, 1)
    spans = spans.only(spans.usable & (crowd <= _AT_ONCE))
    part = other.busy.overlap(spans.start, spans.end) / np.maximum(spans.end - spans.start, 1)
    samples = samples_of(ask, gpu, victim, spans, part)
    verdict = slowdown(samples, other.busy)
    return {
        "gpu": gpu.gpu,
        "victim": victim.name,
        "aggressor": other.name,
        "slowdown": _number(verdict.slowdown),
        "ci_low": _number(verdict.low),
        "ci_high": _number(verdict.high),
        "p": _number(verdict.p),
        "samples": verdict.alone + verdict.shared,
        "cause": _cause(gpu, victim, other, verdict, waits),
        "window_start_ns": gpu.moment(gpu.begin),
        "window_end_ns": gpu.moment(gpu.end),
        "node": gpu.node,
        "evidence": verdict.word,
    }


def _cause(gpu: Gpu, victim: Tenant, other: Tenant, verdict: Verdict, waits: Waits) -> str:
    if not verdict.enough:
        return TOO_FEW
    if not verdict.evidence:
        return NO_EVIDENCE
    return cause_of(gpu, victim, other, waits)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
