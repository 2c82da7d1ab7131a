"""Tables of seconds, and those of minutes and hours that they are folded into as they age."""

from dataclasses import dataclass, replace
from typing import Final

from cotenant.schema.dimensions import GPU_OVERLAPS, GPU_SECONDS, ROLLUPS, TOTALS
from cotenant.schema.table import Column, Table

SECOND_NS: Final = 1_000_000_000
HOUR_NS: Final = 3600 * SECOND_NS
DAY_NS: Final = 24 * HOUR_NS
TIME: Final = "timestamp_ns"
FIRST: Final = "first_ns"
# Of a sample of a second; what is coarser is not cut at a window's edge.
_SINCE: Final = "since_ns"


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows of one table that become fewer and longer ones of another.

    Of ``sampled`` tables the time is when a sample was taken, and told of the time before it. A
    coarser row has the time of its last sample, and in ``FIRST`` that of its first: whatever is
    known from the first and the last sample of a recording stays so.
    """

    finer: Table
    coarser: Table
    length_ns: int  # Of a coarser row.
    after_ns: int  # How old rows are then,
    batch_ns: int  # and how much time is folded at once.
    keys: tuple[str, ...]
    largest: tuple[str, ...] = ()  # Of these the largest counts; all others are added up.
    sampled: bool = False

    @property
    def lists(self) -> tuple[str, ...]:
        """The columns of lists, which are added up element by element."""
        return tuple(c.name for c in self.finer.columns if c.type.startswith("list"))

    @property
    def sums(self) -> tuple[str, ...]:
        """The columns of numbers that are added up."""
        others = {TIME, _SINCE, *self.keys, *self.largest, *self.lists}
        return tuple(c.name for c in self.finer.columns if c.name not in others)


def _coarser(table: Table, name: str, unit: str, samples: tuple[Column, ...]) -> Table:
    first, *others = (column for column in table.columns if column.name != _SINCE)
    when = "end of its last second, UTC" if samples else f"start of the {unit}, UTC"
    doc = f"What {table.name} was folded into, per {unit}; {table.name} shows them all."
    return Table(name, doc, (replace(first, doc=when), *others, *samples))


def _folds(
    table: Table,
    stem: str,
    keys: tuple[str, ...],
    largest: tuple[str, ...] = (),
    samples: tuple[Column, ...] = (),
) -> tuple[Fold, Fold]:
    minutes = _coarser(table, f"{stem}_minutes", "minute", samples)
    hours = _coarser(table, f"{stem}_hours", "hour", samples)
    about = (keys, largest, bool(samples))
    return (
        Fold(table, minutes, 60 * SECOND_NS, 6 * HOUR_NS, HOUR_NS, *about),
        Fold(minutes, hours, HOUR_NS, 7 * DAY_NS, DAY_NS, *about),
    )


# The most of a second, and what it is the most of.
MOST: Final = {"most_ns": "sum_ns", "most_bytes": "bytes"}
_SAMPLES: Final = (
    Column(FIRST, "int64", "end of its first second, UTC", False),
    Column("most_ns", "int64", "the largest sum_ns of a second"),
    Column("most_bytes", "int64", "the largest bytes of a second"),
)
_TOTAL_KEYS: Final = (FIRST, "cgroup_id", "family", "function")

FOLDS: Final = (
    *_folds(ROLLUPS, "rollup", ("cgroup_id", "family", "op", "name"), ("max_ns",)),
    *_folds(GPU_SECONDS, "gpu", ("cgroup_id", "gpu"), ("memory_bytes", "told_ns")),
    *_folds(GPU_OVERLAPS, "gpu_overlap", ("cgroup_id", "other_cgroup_id", "gpu")),
    *_folds(TOTALS, "total", _TOTAL_KEYS, ("max_ns", *MOST), _SAMPLES),
)
FOLDED: Final = tuple(fold.coarser for fold in FOLDS)
# By which table each is shown.
SHOWN_BY: Final = {
    coarser.name: minutes.finer.name
    for minutes, hours in zip(FOLDS[::2], FOLDS[1::2], strict=True)
    for coarser in (minutes.coarser, hours.coarser)
}
ROLLUP_TABLES: Final = frozenset(t.name for fold in FOLDS for t in (fold.finer, fold.coarser))
