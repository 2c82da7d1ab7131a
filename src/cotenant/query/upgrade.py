"""Spans of recordings that stored none: derived from their rows once, and stored.

One recording at a time, each by one change of the manifest: whenever this is cut short, a recording
is as before or converted, and the next try goes on with the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.query.engine.session import QueryLimits, Session
from cotenant.schema.mix_numbers import mix_numbers, name_number
from cotenant.store.writer import StoreWriter

_RECORDINGS: Final = """
select *, coalesce(lead(coalesce(spans_from_ns, started_ns)) over (
    partition by node order by coalesce(spans_from_ns, started_ns)
), 4611686018427387904) as until_ns
from sessions
qualify spans_from_ns is null
order by node, started_ns
"""
_SPANS: Final = """
select timestamp_ns, cgroup_id, pid, gpu, context, stream, end_ns, proof_ns, waited_ns, proof_api,
       coalesce(closed_by, 'stop') as closed_by, streams, launches, copies, copied_bytes,
       collectives, total_extent, mix, shed,
       exists (
           from losses l
           where l.cgroup_id = d.cgroup_id and l.family = 'cuda' and l.lost > 0
             and coalesce(l.from_ns, l.timestamp_ns - 1_000_000_000) <= d.end_ns
             and coalesce(l.to_ns, l.timestamp_ns) >= d.start_ns
       ) as lost
from spans_of_rows d
where node = $node
order by timestamp_ns
"""
_ITEMS: Final = """
select mix, kernel_name, size, count
from span_mixes
where mix in (select mix from spans_of_rows where node = $node)
order by mix
"""
_ENTRY: Final = [
    ("mix", "<i8"), ("name", "<u8"), ("size", "<i8"), ("sized", "<u8"), ("count", "<u8"),
]  # fmt: skip
_NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Upgraded:
    """A recording whose spans are stored from now on."""

    node: str
    started_ns: int
    spans: int


def to_upgrade(store: Path) -> list[dict[str, Any]]:
    """The rows of recordings without spans, and until when each lasted at most."""
    with Session(store) as session:
        return session.ask(_RECORDINGS, rows=_NO_LIMIT).rows()


def upgrade(store: Path) -> Iterator[Upgraded]:
    """Convert one recording after the other."""
    for row in to_upgrade(store):
        until_ns = row.pop("until_ns")
        yield _upgrade_one(store, row, until_ns)


def _upgrade_one(store: Path, recording: dict[str, Any], until_ns: int) -> Upgraded:
    node, started_ns = recording["node"], recording["started_ns"]
    limits = {"boot_id": recording["boot_id"], "max_buffered_bytes": _NO_LIMIT}
    # Held from the beginning: nobody records into it meanwhile.
    with StoreWriter(store, node=node, **limits) as writer:
        spans, mixes = _derived(store, node, started_ns, until_ns)
        if spans.num_rows:
            writer.append("spans", spans)
            writer.append("span_mixes", mixes)
        row = {name: [value] for name, value in recording.items()} | {"spans_from_ns": [started_ns]}
        row["spans_until_ns"] = pa.nulls(1, pa.int64())
        writer.replace("sessions", pa.table(row), anew=True)
        writer.seal(min(until_ns, recording["ended_ns"] or started_ns))
    return Upgraded(node, started_ns, spans.num_rows)


def _derived(store: Path, node: str, from_ns: int, to_ns: int) -> tuple[pa.Table, pa.Table]:
    """The spans of a time, and the rows of their mixes."""
    limits = QueryLimits(derive_spans=True, seconds=86_400)
    with Session(store, from_ns=from_ns, to_ns=to_ns, limits=limits) as session:
        spans = session.ask(_SPANS, {"node": node}, rows=_NO_LIMIT).table
        items = session.ask(_ITEMS, {"node": node}, rows=_NO_LIMIT).table
    derived, place = np.unique(items["mix"].to_numpy(), return_inverse=True)
    numbers = _numbered(items, place, len(derived))
    of_span = numbers[np.searchsorted(derived, spans["mix"].to_numpy())]
    spans = spans.set_column(spans.column_names.index("mix"), "mix", pa.array(of_span))
    # A tenant reads its own mixes alone: each has those of its spans.
    own = spans.group_by(["cgroup_id", "mix"]).aggregate([("timestamp_ns", "max")])
    own = own.rename_columns(["cgroup_id", "mix", "timestamp_ns"])
    items = items.set_column(0, "mix", pa.array(numbers[place]))
    return spans, items.join(own, "mix", join_type="inner")


def _numbered(items: pa.Table, place: Any, mixes: int) -> Any:
    """The numbers that the agent gives mixes; items are of the mixes at these places."""
    names = items["kernel_name"].combine_chunks().dictionary_encode()
    number = np.array([name_number(name) for name in names.dictionary.to_pylist()], np.uint64)
    entries = np.zeros(items.num_rows, _ENTRY)
    entries["mix"] = place
    entries["name"] = number[names.indices.to_numpy()] if len(number) else 0
    size = items["size"].combine_chunks()
    entries["size"] = size.fill_null(0).to_numpy()
    entries["sized"] = size.is_valid().to_numpy(zero_copy_only=False)
    entries["count"] = items["count"].to_numpy()
    entries = entries[np.lexsort([entries[name] for name in ("sized", "size", "name", "mix")])]
    return mix_numbers(entries, mixes)
