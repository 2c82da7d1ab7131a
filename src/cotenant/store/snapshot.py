"""Snapshot tables: one file per boot or recording, rewritten whole."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema import Table
from cotenant.store.segment import conform


def snapshot_key(rows: Any, boot_id: str) -> str:
    """Whose snapshot this is: the recording that the rows name, else the boot."""
    if "session_id" not in rows.column_names:
        return boot_id
    names = rows.column("session_id").unique().to_pylist()
    if len(names) != 1:
        raise StoreError(f"a snapshot of sessions is of one recording, not of {len(names)}")
    return str(names[0])


def merged_snapshot(table: Table, file: Path, rows: Any) -> Any | None:
    """The rows, and those of the file that they do not replace; None if it cannot be read.

    A recorder forgets the cgroups that are gone, and one that starts later in the same boot never
    knew them; the events that name them are still there.
    """
    try:
        before = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowInvalid):
        return None
    return with_others(conform(table, before), rows)


def with_others(before: Any, rows: Any) -> Any:
    """The rows, and those before them of other cgroups; a recording has but one row.

    A cgroup that was forgotten and is heard of once more has no path any more: it stays as it was.
    """
    if "session_id" in rows.column_names:
        return rows
    placed = before.filter(pc.is_valid(before.column("cgroup_path"))).column("cgroup_id")
    anew = pc.or_(
        pc.is_valid(rows.column("cgroup_path")),
        pc.invert(pc.is_in(rows.column("cgroup_id"), placed)),
    )
    rows = rows.filter(anew)
    others = pc.invert(pc.is_in(before.column("cgroup_id"), rows.column("cgroup_id")))
    return pa.concat_tables([before.filter(others), rows])
