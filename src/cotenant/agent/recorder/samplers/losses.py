"""What became of every event, by family and tenant.

    seen = stored + shed + lost + queued

``seen``, ``shed`` and a part of ``lost`` are the kernel's counts; ``stored`` and the rest of
``lost`` are ours, of rows that were sealed and of rows that were given up. ``queued`` is what is
still on its way; after the last seal it must be zero. Nothing is computed from the sum.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.ingest.columns.owner import OWNER
from cotenant.agent.recorder.samplers.lost_windows import LostWindows
from cotenant.schema.dimensions import LOSSES
from cotenant.schema.families import KERNEL_FAMILIES
from cotenant.store.segment import arrow_schema

RING_FULL: Final = "ring full"
STORE_FULL: Final = "store behind"
OVER_SHARE: Final = "over its share"
OVER_BUDGET: Final = "over budget"
KERNEL_BUDGET: Final = "over the kernel budget"

_SPANNED: Final = "cuda"
_TERMS: Final = ("seen", "stored", "shed", "lost")
_PARTS: Final = ("over_budget", "dropped")
_LEDGER_ENTRY: Final = np.dtype(
    [("cgroup_id", np.uint64), ("cgroup_v1_id", np.uint64), ("hierarchy", np.uint16)]
)


class Tally(NamedTuple):
    """The owner of some events as the kernel tells it, and their family."""

    family: str
    cgroup_id: int
    cgroup_v1_id: int
    hierarchy: int


class Fate(NamedTuple):
    """What the kernel says became of some events."""

    seen: int
    shed: int
    lost: int
    over_budget: int  # The part of shed whose thread, or whose CPU, was over budget.


Owners = Callable[[npt.NDArray[np.void]], npt.NDArray[np.int64]]


@dataclass(slots=True)
class Losses:
    """The counts since the recording began; ``owners`` gives the stored ids of tallies."""

    table: ClassVar[str] = "losses"

    owners: Owners
    seen: Counter[Tally] = field(default_factory=Counter)
    shed: Counter[Tally] = field(default_factory=Counter)
    lost: Counter[Tally] = field(default_factory=Counter)
    stored: Counter[Tally] = field(default_factory=Counter)
    over_budget: Counter[Tally] = field(default_factory=Counter)
    dropped: Counter[Tally] = field(default_factory=Counter)  # The part of lost given up here.
    orphans: int = 0  # Rows sent for which the kernel had no room to keep a count.
    _waiting: Counter[Tally] = field(default_factory=Counter)
    _told: dict[Tally, tuple[int, ...]] = field(default_factory=dict)
    _changed: set[Tally] = field(default_factory=set)  # Since the last sample.
    _past: Counter[str] = field(default_factory=Counter)
    _sampled_ns: int | None = None
    gpu_windows: LostWindows = field(default_factory=LostWindows)

    def count(self, tally: Tally, fate: Fate) -> None:
        """The kernel counted these, since it was last asked."""
        self.seen[tally] += fate.seen
        self.shed[tally] += fate.shed
        self.lost[tally] += fate.lost
        self.over_budget[tally] += fate.over_budget
        self._changed.add(tally)

    def appended(self, rows: Iterable[tuple[Tally, int]]) -> None:
        """Rows wait to be sealed."""
        for tally, number in rows:
            self._waiting[tally] += number

    def sealed(self) -> None:
        """What waited is in the store."""
        self.stored.update(self._waiting)
        self._changed.update(self._waiting)
        self._waiting.clear()

    def gave_up(self, rows: Iterable[tuple[Tally, int]]) -> None:
        """Rows could not be kept."""
        for tally, number in rows:
            self.lost[tally] += number
            self.dropped[tally] += number
            self._changed.add(tally)

    def give_up_waiting(self) -> None:
        """What waited will never be sealed."""
        self.gave_up(list(self._waiting.items()))
        self._waiting.clear()

    @property
    def waiting(self) -> Counter[str]:
        """Rows that wait to be sealed, by family."""
        found: Counter[str] = Counter()
        for tally, number in self._waiting.items():
            found[tally.family] += number
        return found

    def queued(self, tally: Tally) -> int:
        """Seen, and neither stored nor shed nor lost so far."""
        return self.seen[tally] - self.stored[tally] - self.shed[tally] - self.lost[tally]

    def imbalance(self) -> dict[Tally, int]:
        """After the last seal: whose events do not add up, and by how many."""
        tallies = {*self.seen, *self.stored, *self.lost}
        found = {tally: n for tally in tallies if (n := self.queued(tally))}
        # Rows without a count were stored all the same; as many as that may be too many.
        if self.orphans and sum(found.values()) + self.orphans == 0:
            return {}
        return found

    def total(self, term: str) -> int:
        """One term over everybody."""
        return int(sum(getattr(self, term).values())) + self._past[term]

    def forget(self, gone: Callable[[Tally], bool]) -> None:
        """Drop tenants that are gone and add up; what they did stays in the sums."""
        for tally in [t for t in self._told if not self.queued(t) and gone(t)]:
            if tuple(self._terms(tally)) != self._told[tally]:
                continue
            del self._told[tally]
            for term in (*_TERMS, *_PARTS):
                self._past[term] += getattr(self, term).pop(tally, 0)

    def _terms(self, tally: Tally) -> tuple[int, ...]:
        return tuple(getattr(self, term)[tally] for term in (*_TERMS, *_PARTS))

    def sample(self, now_ns: int) -> Any:
        """Rows for the time since the last sample."""
        since_ns = now_ns if self._sampled_ns is None else min(self._sampled_ns, now_ns)
        self._sampled_ns = now_ns
        tallies, rows = [], []
        changed, self._changed = self._changed, set()
        for tally in changed:
            terms = self._terms(tally)
            before = self._told.get(tally, (0,) * len(terms))
            if terms != before:
                tallies.append(tally)
                rows.append([now - then for now, then in zip(terms, before, strict=True)])
                self._told[tally] = terms
        entries = np.zeros(len(tallies), _LEDGER_ENTRY)
        for at, name in enumerate(OWNER):
            entries[name] = [tally[at + 1] for tally in tallies]
        columns = np.array(rows, np.int64).reshape(-1, len(_TERMS) + len(_PARTS)).T
        seen, stored, shed, lost, *_ = columns
        nothing = shed + lost == 0
        whose = self.owners(entries)
        self._note_windows(tallies, whose, columns, since_ns)
        return pa.table(
            {
                "timestamp_ns": np.full(len(rows), now_ns, np.int64),
                "family": [tally.family for tally in tallies],
                "cgroup_id": whose,
                "seen": seen,
                "stored": stored,
                "shed": shed,
                "lost": lost,
                "queued": seen - stored - shed - lost,
                "reason": [
                    _reason(tally.family, *row[2:])
                    for tally, row in zip(tallies, rows, strict=True)
                ],
                "from_ns": pa.array(np.full(len(rows), since_ns, np.int64), mask=nothing),
                "to_ns": pa.array(np.full(len(rows), now_ns, np.int64), mask=nothing),
                "unseen": pa.nulls(len(rows), pa.int64()),
            },
            schema=arrow_schema(LOSSES),
        )

    def _note_windows(
        self, tallies: list[Tally], whose: npt.NDArray[np.int64], columns: Any, since_ns: int
    ) -> None:
        """When GPU calls never reached us; those that were given up here did."""
        now_ns = self._sampled_ns or since_ns
        missed = columns[_TERMS.index("lost")] - columns[len(_TERMS) + _PARTS.index("dropped")]
        for at in np.flatnonzero(missed > 0).tolist():
            if tallies[at].family == _SPANNED:
                self.gpu_windows.add(int(whose[at]), since_ns, now_ns)
        self.gpu_windows.forget(now_ns)


def _reason(family: str, shed: int, lost: int, over_budget: int, dropped: int) -> str | None:
    causes = {
        RING_FULL: lost - dropped,
        STORE_FULL: dropped,
        OVER_SHARE: shed - over_budget,
        KERNEL_BUDGET if family in KERNEL_FAMILIES else OVER_BUDGET: over_budget,
    }
    return ", ".join(cause for cause, events in causes.items() if events) or None
