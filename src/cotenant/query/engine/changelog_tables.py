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

    key: str
    carried: str  # SQL condition: rows worth carrying into a window, others mean "nothing".


CHANGELOGS: Final = {
    "gpu_memory": Changelog("cgroup_id, gpu", "bytes IS DISTINCT FROM 0"),
    "limits": Changelog("cgroup_id", "cpus IS NOT NULL OR memory_bytes IS NOT NULL"),
}


def recording_at(end_ns: int) -> str:
    """SQL: per node, the start of the newest recording at that time."""
    return (
        "(SELECT node, max(started_ns) AS started_ns FROM sessions "
        f"WHERE started_ns <= {end_ns} GROUP BY node)"
    )


def create_changelog_view(
    connection: Any, root: Path, name: str, segments: Sequence[Segment], window: Window
) -> None:
    """Replace a changelog's view by one that begins with what held when the window began."""
    start = window.from_ns
    if start is None or (window.to_ns is not None and window.to_ns <= start):
        return
    log, table = CHANGELOGS[name], TABLES[name]
    before = replace(window, from_ns=None, to_ns=start + 1)
    after = replace(window, from_ns=start + 1)
    then, now = (view(connection, table, root, segments, part) for part in (before, after))
    # What an earlier recording saw may have changed unseen since it ended.
    known = (
        f"SELECT t.* FROM ({then}) t LEFT JOIN {recording_at(start)} r USING (node) "
        f"WHERE t.{TIME} >= coalesce(r.started_ns, 0) "
        f"QUALIFY row_number() OVER (PARTITION BY {log.key} ORDER BY t.{TIME} DESC) = 1"
    )
    connection.execute(
        f"CREATE OR REPLACE VIEW {name} AS {now} UNION ALL "
        f"SELECT * REPLACE ({start}::BIGINT AS {TIME}) FROM ({known}) WHERE {log.carried}"
    )
