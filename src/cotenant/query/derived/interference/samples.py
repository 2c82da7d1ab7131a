"""A victim's samples: its spans by kind, or held against what their mixes take alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cotenant.query.derived.interference.cause import Waits
from cotenant.query.derived.interference.gpu import Floats, Gpu, Spans, Tenant
from cotenant.query.derived.interference.slowdown import FEWEST, SHARED, Samples
from cotenant.query.derived.registry import Ask
from cotenant.query.derived.solved_times.equations import MixEntries, equations
from cotenant.query.derived.solved_times.robust_fit import robust_fit
from cotenant.query.derived.solved_times.table import FEWEST_SPANS, MOST_SPANS, OVERHEAD
from cotenant.query.text.sql import quoted

# From a call to its work's start, and from its end to the waiting thread's next instruction.
HOST_NS: Final = 100_000.0

_MIXES: Final = """
select mix, kernel_name, coalesce(size, 0) as size, count as launches
from span_mixes
where mix in (select mix from spans where tenant = {tenant} and node = {node})
order by mix, kernel_name, size, launches
"""


@dataclass(frozen=True, slots=True)
class MixTimes:
    """What each mix should take while nobody else has work; 0 where that is not known."""

    mixes: MixEntries
    alone_ns: Floats

    def of(self, spans: Spans) -> Floats:
        """Of the mix of each span."""
        place, known = self.mixes.place(spans.mix)
        return np.where(known, self.alone_ns[place], 0.0)


class VictimSamples:
    """Samples of one tenant on a GPU, beside any other."""

    def __init__(self, ask: Ask, gpu: Gpu, waits: Waits, victim: Tenant) -> None:
        self._ask, self._gpu, self._waits, self._victim = ask, gpu, waits, victim

    def __call__(self, spans: Spans, part: Floats) -> Samples:
        """Spans of the same kind; or, where few repeat, held against what they should take."""
        length = spans.end - spans.start
        late = self._waits.before(self._gpu, self._victim.name, spans.start, spans.end)
        idle = HOST_NS + late
        whole = Samples(spans.start, spans.end, length, spans.signature, idle)
        shared = part >= SHARED
        if not shared.any() or _repeated(whole, part, shared) >= 0.5 or self._mix_times is None:
            return whole
        expected = self._mix_times.of(spans)
        known = expected > 0
        cost = whole.cost / np.where(known, expected, 1)
        kind = np.zeros(len(cost), dtype=np.int64)
        idle = idle / np.where(known, expected, 1)
        return Samples(whole.start, whole.end, cost, kind, idle).only(known)

    @cached_property
    def _mix_times(self) -> MixTimes | None:
        """By device times that are solved from the spans that were alone; None if too few were."""
        spans = self._victim.spans
        others = self._gpu.queued_besides(self._victim).overlap(spans.start, spans.end)
        alone = spans.usable & (others <= 0)
        if np.count_nonzero(alone) < FEWEST_SPANS:
            return None
        tenant, node = quoted(self._victim.name), quoted(self._gpu.node)
        mixes = MixEntries.of(self._ask(_MIXES.format(tenant=tenant, node=node)))
        if not len(mixes.mix):
            return None
        matrix, _ = equations(mixes.all_items())
        place, known = mixes.place(spans.mix)
        chosen = _some(np.flatnonzero(known & alone), MOST_SPANS)
        if len(chosen) < max(FEWEST_SPANS, 3 * matrix.shape[1]):
            return None
        launched = matrix[place[chosen]]
        # Of a kernel that never ran alone nothing is known, nor of a mix that has it.
        solo = (launched > 0).any(axis=0)
        fit = robust_fit(launched[:, solo], (spans.end - spans.start)[chosen], OVERHEAD)
        unknown = (matrix[:, ~solo] > 0).any(axis=1)
        return MixTimes(mixes, np.where(unknown, 0.0, matrix[:, solo] @ fit.solution))


def _repeated(samples: Samples, part: Floats, shared: NDArray[np.bool_]) -> float:
    """The part of the shared time in kinds that occur often enough, alone and shared."""
    _, kind = np.unique(samples.kind, return_inverse=True)
    often = np.bincount(kind[shared], minlength=kind.max() + 1) >= FEWEST
    often &= np.bincount(kind[part <= 0], minlength=kind.max() + 1) >= FEWEST
    return float(samples.cost[shared & often[kind]].sum() / samples.cost[shared].sum())


def _some(places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most so many of them, evenly."""
    step = -(-len(places) // most) or 1
    return places[::step]
