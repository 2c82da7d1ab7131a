"""GPU memory that only grows."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from cotenant.query.derived.registry import Ask
from cotenant.query.derived.row_groups import groups_of
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, percent
from cotenant.query.text import shell

NEEDS: Final = ("held_memory",)
NODES: Final = Spread.EACH
FEWEST: Final = 20  # Changes, below which a growth is a start.
GROWTH: Final = 0.2  # Of what is held in the end.
LEAST_BYTES: Final = 64 << 20
RISES: Final = 0.8
_THIRDS: Final = 3

_SQL: Final = """
select tenant, node, gpu, timestamp_ns, bytes
from held_memory
where bytes is not null
order by tenant, node, gpu, timestamp_ns
"""


def find(ask: Ask) -> list[Finding]:
    """Every tenant and GPU where growth does not end."""
    found = []
    for (tenant, node, gpu), rows in groups_of(ask(_SQL), "tenant", "node", "gpu"):
        finding = _finding(tenant, gpu, rows)
        if finding is not None:
            found.append(replace(finding, nodes=(node,)))
    return found


def _finding(tenant: str, gpu: str | None, rows: Any) -> Finding | None:
    held = rows["bytes"].to_numpy().astype(np.float64)
    moments = rows["timestamp_ns"].to_numpy()
    changes = np.diff(held)
    changes = changes[changes != 0]
    if len(changes) < FEWEST:
        return None
    # The lowest level in each part: what is given back between peaks does not count as growth.
    lowest = [float(part.min()) for part in np.array_split(held, 2 * _THIRDS)]
    growth = lowest[-1] - lowest[0]
    rising = float(np.mean(np.diff(lowest) > 0))
    late = lowest[-1] - lowest[len(lowest) // 2]
    if growth < max(LEAST_BYTES, GROWTH * held[-1]) or rising < RISES or late < growth / 5:
        return None
    seconds = max(float(moments[-1] - moments[0]) / 1e9, 1e-9)
    fit = float(np.corrcoef((moments - moments[0]).astype(np.float64), held)[0, 1]) ** 2
    where = gpu or "its GPU"
    return Finding(
        kind="memory leak",
        victim=tenant,
        culprit=tenant,
        share=min(growth / held[-1], 1.0),
        confidence=0.5 + 0.45 * fit,
        title=f"{tenant} holds more and more memory on {where}",
        evidence=(
            f"what it never gives back grew by {growth / 2**20:,.0f} MiB to "
            f"{lowest[-1] / 2**20:,.0f} MiB in {seconds:.3g} s, "
            f"{growth / 2**20 / seconds:.3g} MiB a second",
            f"it holds {(held[-1] - held[0]) / 2**20:,.0f} MiB more than at first",
            f"it is still growing; a straight line explains {percent(fit)} of it",
        ),
        next=shell.ask("memory_growth", tenant),
        base="its GPU memory",
    )
