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


def merged_snapshot(table: Table, file: Path, rows: Any) -> Any:
    """The rows, and those of the file whose cgroup is not among them.

    A recorder forgets the cgroups that are gone, and one that starts later in the same boot never
    knew them; the events that name them are still there.
    """
    if "session_id" in rows.column_names or not file.exists():
        return rows
    try:
        before = pq.ParquetFile(file).read()
    except pa.ArrowInvalid:
        return rows  # Damaged, and about to be replaced.
    forgotten = pc.invert(pc.is_in(before.column("cgroup_id"), rows.column("cgroup_id")))
    return pa.concat_tables([conform(table, before.filter(forgotten)), rows])
