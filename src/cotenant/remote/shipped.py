"""Which tables a node ships, and what becomes of their rows on the way."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cotenant.schema import TABLES
from cotenant.schema.folding import FOLDS, SHOWN_BY
from cotenant.store.folding import folded_together
from cotenant.store.segment import TIME

_MINUTE_NS: Final = 60_000_000_000

Change = Callable[[Iterable[Any]], Any]  # From pieces of the rows of a window to one table.


@dataclass(frozen=True, slots=True)
class Shipped:
    """A table of a far store: which tables of the near one it is made of, and how."""

    table: str
    made_from: tuple[str, ...]
    change: Change | None = None  # Of the rows of a window.

    @property
    def same(self) -> frozenset[str]:
        """Tables that tell the same, by the second, the minute or the hour: one is enough."""
        shown = SHOWN_BY.get(self.table, self.table)
        return frozenset({shown, *(t for t, by in SHOWN_BY.items() if by == shown)} - {self.table})


def _as_it_is(table: str) -> Shipped:
    return Shipped(table, (table,))


def _minutes(rows: Any) -> Any:
    times = rows.column(TIME).to_numpy()
    return pa.array(times - times % _MINUTE_NS)


def _losses(pieces: Iterable[Any]) -> Any:
    """Rows that tell of nothing lost, by the minute that they end in; all others as they are.

    The time stays that of the last of them: a recording that was killed is known to have run till
    then.
    """
    rows = pa.concat_tables(pieces)
    lost = pc.add(rows.column("lost"), rows.column("shed"))
    whole = pc.and_(pc.equal(lost, 0), pc.is_null(rows.column("from_ns")))
    quiet = rows.filter(whole).append_column("minute", _minutes(rows.filter(whole)))
    keys = ["minute", "family", "cgroup_id", "reason", "from_ns", "to_ns"]
    values = [(name, "max" if name == TIME else "sum") for name in rows.column_names]
    values = [(name, how) for name, how in values if name not in keys]
    summed = quiet.group_by(keys, use_threads=False).aggregate(values)
    names = {f"{name}_{how}": name for name, how in values}
    summed = summed.rename_columns([names.get(name, name) for name in summed.column_names])
    summed = summed.select(rows.column_names).cast(rows.schema)
    return pa.concat_tables([rows.filter(pc.invert(whole)), summed])


def _of_several_nodes(pieces: Iterable[Any]) -> Any:
    """NCCL calls of communicators that have ranks elsewhere, and the groups that they are part of.

    A communicator of one node has all its ranks among the rows. One of which a rank was silent for
    all of the window is taken for one of several nodes: that costs bytes, the reverse would cost
    an answer.
    """
    rows = pa.concat_tables(pieces)
    ranks = rows.group_by("comm_hash", use_threads=False).aggregate(
        [("rank", "count_distinct"), ("nranks", "max")]
    )
    elsewhere = pc.less(ranks.column("rank_count_distinct"), ranks.column("nranks_max"))
    spanning = ranks.filter(elsewhere).column("comm_hash").drop_null()
    own = pc.is_in(rows.column("comm_hash"), spanning)
    groups = rows.filter(own).column("group_id").drop_null()
    return rows.filter(pc.or_(own, pc.is_in(rows.column("group_id"), groups)))


BY_MINUTE: Final = (
    *(
        Shipped(
            fold.coarser.name,
            (fold.finer.name, fold.coarser.name),
            partial(folded_together, fold),
        )
        for fold in FOLDS
        if fold.length_ns == _MINUTE_NS
    ),
    Shipped("losses", ("losses",), _losses),
    _as_it_is("limits"),
    _as_it_is("gpu_memory"),
    Shipped("nccl_events", ("nccl_events",), _of_several_nodes),
    _as_it_is("containers"),
    _as_it_is("sessions"),
)
ALL_ROWS: Final = tuple(map(_as_it_is, TABLES))


def in_order(rows: Any) -> Any:
    """The rows in an order that depends on nothing but them."""
    keys = [field.name for field in rows.schema if not pa.types.is_list(field.type)]
    keys.sort(key=lambda name: name != TIME)
    indices = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in keys])
    in_place = np.array_equal(indices.to_numpy(), np.arange(len(indices)))
    return rows if in_place else rows.take(indices)
