"""Snapshot tables: one file per boot or recording, rewritten whole.

Cgroups that are long gone do not change any more. So that those still there do not cost more with
each that was, a page of the gone is split off now and then, and not rewritten again.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.schema import Table
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import check_plain
from cotenant.store.segment import conform

PAGE_ROWS: Final = 1024
# By then every name that was asked for has come, or will not.
SETTLED_NS: Final = 600 * 1_000_000_000


def snapshot_key(rows: Any, boot_id: str) -> str:
    """Whose snapshot this is: the recording that the rows name, else the boot."""
    if "session_id" not in rows.column_names:
        return boot_id
    names = rows.column("session_id").unique().to_pylist()
    if len(names) != 1:
        raise StoreError(f"a snapshot of sessions holds one recording, not {len(names)}")
    return str(names[0])


def merged_snapshot(table: Table, file: Path, rows: Any) -> Any | None:
    """The rows, and those of the file that they do not replace; None if it cannot be read.

    A recorder forgets the cgroups that are gone, and one that starts later in the same boot never
    knew them; the events that name them are still there.
    """
    try:
        check_plain(file)
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


def without_paged(rows: Any, pages: Iterable[Path]) -> Any:
    """The rows, but for cgroups that are heard of once more after their page was split off."""
    if "session_id" in rows.column_names or not rows.column("cgroup_path").null_count:
        return rows
    for page in pages:
        try:
            check_plain(page)
            ids = pq.ParquetFile(page).read(columns=["cgroup_id"]).column("cgroup_id")
        except (OSError, pa.ArrowInvalid):
            continue
        rows = rows.filter(pc.invert(pc.is_in(rows.column("cgroup_id"), ids)))
    return rows


def split_off(rows: Any, now_ns: int) -> tuple[Any | None, Any]:
    """A page of cgroups that are long gone, if they are enough for one; and all others."""
    if "removed_ns" not in rows.column_names:
        return None, rows
    gone = pc.fill_null(pc.less(rows.column("removed_ns"), now_ns - SETTLED_NS), False)
    if (pc.sum(gone).as_py() or 0) < PAGE_ROWS:
        return None, rows
    return rows.filter(gone), rows.filter(pc.invert(gone))


def page_key(key: str, number: int) -> str:
    """The key of one of the pages of a snapshot."""
    return f"{key}/{number}"


def is_page(segment: Segment, key: str) -> bool:
    """Whether it is a page of this snapshot."""
    return segment.key is not None and segment.key.startswith(f"{key}/")


def written_at(segment: Segment) -> tuple[int, int]:
    """When the file of a snapshot got its name, and its number."""
    began, _, number = segment.path.rpartition("/")[2].removesuffix(".parquet").partition("-")
    return int(began), int(number)
