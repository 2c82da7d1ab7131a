"""Tables that get a row when something changes: what was so when a window began belongs to it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.tables import TIME, Window, view
from cotenant.schema import TABLES
from cotenant.store.manifest import Segment


@dataclass(frozen=True, slots=True)
class Level:
    """A table whose rows hold until the next of the same key."""

    table: str
    key: str
    told: str  # Where it says more than that there is nothing.


_LEVELS: Final = (
    Level("gpu_memory", "cgroup_id, gpu", "bytes IS DISTINCT FROM 0"),
    Level("limits", "cgroup_id", "cpus IS NOT NULL OR memory_bytes IS NOT NULL"),
)


def recording_at(end_ns: int) -> str:
    """SQL: when each node's recording that was the last to start by then had started."""
    return (
        "(SELECT node, max(started_ns) AS started_ns FROM sessions "
        f"WHERE started_ns <= {end_ns} GROUP BY node)"
    )


def create_level_views(
    connection: Any, root: Path, segments: Sequence[Segment], window: Window
) -> None:
    """Make the views of levels begin with what was so when the window began."""
    start = window.from_ns
    if start is None or (window.to_ns is not None and window.to_ns <= start):
        return
    before = replace(window, from_ns=None, to_ns=start + 1)
    after = replace(window, from_ns=start + 1)
    for level in _LEVELS:
        table = TABLES[level.table]
        own = [segment for segment in segments if segment.table == level.table]
        then, now = (view(connection, table, root, own, part) for part in (before, after))
        # A recording does not know what an earlier one's processes came to.
        known = (
            f"SELECT t.* FROM ({then}) t LEFT JOIN {recording_at(start)} r USING (node) "
            f"WHERE t.{TIME} >= coalesce(r.started_ns, 0) "
            f"QUALIFY row_number() OVER (PARTITION BY {level.key} ORDER BY t.{TIME} DESC) = 1"
        )
        connection.execute(
            f"CREATE OR REPLACE VIEW {level.table} AS {now} UNION ALL "
            f"SELECT * REPLACE ({start}::BIGINT AS {TIME}) FROM ({known}) WHERE {level.told}"
        )
