"""Tables with a row per change: a window starts with the rows that still held when it began."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.tables import view
from cotenant.query.engine.window import TIME, Window
from cotenant.schema import TABLES
from cotenant.store.manifest import Segment


@dataclass(frozen=True, slots=True)
class Changelog:
    """A table in which a row holds until the next row of the same key."""

    table: str
    key: str
    carried: str  # SQL condition: rows worth carrying into a window, others mean "nothing".


_CHANGELOGS: Final = (
    Changelog("gpu_memory", "cgroup_id, gpu", "bytes IS DISTINCT FROM 0"),
    Changelog("limits", "cgroup_id", "cpus IS NOT NULL OR memory_bytes IS NOT NULL"),
)


def recording_at(end_ns: int) -> str:
    """SQL: per node, the start of the newest recording at that time."""
    return (
        "(SELECT node, max(started_ns) AS started_ns FROM sessions "
        f"WHERE started_ns <= {end_ns} GROUP BY node)"
    )


def create_changelog_views(
    connection: Any, root: Path, segments: Sequence[Segment], window: Window
) -> None:
    """Replace the changelogs' views by ones that begin with what held when the window began."""
    start = window.from_ns
    if start is None or (window.to_ns is not None and window.to_ns <= start):
        return
    before = replace(window, from_ns=None, to_ns=start + 1)
    after = replace(window, from_ns=start + 1)
    for log in _CHANGELOGS:
        table = TABLES[log.table]
        own = [segment for segment in segments if segment.table == log.table]
        then, now = (view(connection, table, root, own, part) for part in (before, after))
        # What an earlier recording saw may have changed unseen since it ended.
        known = (
            f"SELECT t.* FROM ({then}) t LEFT JOIN {recording_at(start)} r USING (node) "
            f"WHERE t.{TIME} >= coalesce(r.started_ns, 0) "
            f"QUALIFY row_number() OVER (PARTITION BY {log.key} ORDER BY t.{TIME} DESC) = 1"
        )
        connection.execute(
            f"CREATE OR REPLACE VIEW {log.table} AS {now} UNION ALL "
            f"SELECT * REPLACE ({start}::BIGINT AS {TIME}) FROM ({known}) WHERE {log.carried}"
        )
