"""Tables of seconds, and those of minutes and hours that they are folded into as they age."""

from dataclasses import dataclass, replace
from typing import Final

from cotenant.schema.dimensions import GPU_OVERLAPS, GPU_SECONDS, ROLLUPS
from cotenant.schema.table import Table

SECOND_NS: Final = 1_000_000_000
HOUR_NS: Final = 3600 * SECOND_NS
DAY_NS: Final = 24 * HOUR_NS
TIME: Final = "timestamp_ns"


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of one table that become fewer and longer ones of another."""

    finer: Table
    coarser: Table
    length_ns: int  # Of a coarser row.
    after_ns: int  # How old rows are then,
    batch_ns: int  # and how much time is folded at once.
    keys: tuple[str, ...]
    largest: tuple[str, ...] = ()  # Of these the largest counts; all others are added up.

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns that are added up."""
        others = {TIME, *self.keys, *self.largest}
        return tuple(c.name for c in self.finer.columns if c.name not in others)


def _coarser(table: Table, name: str, unit: str) -> Table:
    first, *others = table.columns
    when = replace(first, doc=f"start of the {unit}, UTC")
    doc = f"What {table.name} was folded into, per {unit}; {table.name} shows them all."
    return Table(name, doc, (when, *others))


def _folds(
    table: Table, stem: str, keys: tuple[str, ...], largest: tuple[str, ...] = ()
) -> tuple[Fold, Fold]:
    minutes = _coarser(table, f"{stem}_minutes", "minute")
    hours = _coarser(table, f"{stem}_hours", "hour")
    return (
        Fold(table, minutes, 60 * SECOND_NS, 6 * HOUR_NS, HOUR_NS, keys, largest),
        Fold(minutes, hours, HOUR_NS, 7 * DAY_NS, DAY_NS, keys, largest),
    )


FOLDS: Final = (
    *_folds(ROLLUPS, "rollup", ("cgroup_id", "family", "op", "name"), ("max_ns",)),
    *_folds(GPU_SECONDS, "gpu", ("cgroup_id", "gpu"), ("memory_bytes", "told_ns")),
    *_folds(GPU_OVERLAPS, "gpu_overlap", ("cgroup_id", "other_cgroup_id", "gpu")),
)
FOLDED: Final = tuple(fold.coarser for fold in FOLDS)
# By which table each is shown.
SHOWN_BY: Final = {
    name: table.name
    for table, stem in ((ROLLUPS, "rollup"), (GPU_SECONDS, "gpu"), (GPU_OVERLAPS, "gpu_overlap"))
    for name in (f"{stem}_minutes", f"{stem}_hours")
}
ROLLUP_TABLES: Final = frozenset(t.name for fold in FOLDS for t in (fold.finer, fold.coarser))
