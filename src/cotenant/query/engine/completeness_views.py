"""What completeness is told by: views that see more than a session's own tables.

whole.holes        losses that the window touches, also of cgroups that a tenant shares holes with
whole.blind        holes of all times that hide calls, for what is counted from its beginning
whole.sharing      by a cgroup, under which names of whole.blind (hole_of) it may have some
whole.owners       whose they are, as far as the session may tell
whole.beats        when anything was counted, of whichever tenant
whole.recordings   when there was a recorder, and which hooks its kernel refused it
whole.bounds       from when to when the session's window is
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.tables import view
from cotenant.query.engine.window import TIME, Window
from cotenant.query.text.sql import quoted
from cotenant.schema.dimensions import LOSSES
from cotenant.schema.holes import OF_NEW_PROCESSES, REASONS, TOLD_WITHIN_NS
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import parse_json

_NO_COUNTS: Final = "seen + stored + queued + shed + lost = 0"
_COUNTED: Final = "SELECT cgroup_id FROM tenant.touched WHERE counted"
_NO_RECORDINGS: Final = (
    "CREATE OR REPLACE TABLE whole.recordings "
    "(node VARCHAR, started_ns BIGINT, ended_ns BIGINT, hooks_refused VARCHAR, "
    "spans_until_ns BIGINT)"
)
# Where a reason names tables, something about the calls is missing, not they themselves.
_CALLS_THERE: Final = ", ".join(
    quoted(reason.name)
    for reason in REASONS.values()
    if reason.tables is not None and reason.op is None
)
_NEW: Final = ", ".join(quoted(reason.name) for reason in OF_NEW_PROCESSES)
# Names under which a cgroup has holes, and under which others share them. One whose owner nobody
# knows may be anybody's on its node; that of an outermost cgroup, of any within.
_PLACE: Final = "node || ' ' || boot_id || ' '"
_HOLE_OF: Final = f"""
SELECT cgroup_id, unnest([
         CASE WHEN tenant IN ('unknown', 'unknown@' || node) THEN node END,
         {_PLACE} || container_id, {_PLACE} || cgroup_path]) AS hole_of
  FROM containers"""
_SHARES: Final = f"""
SELECT cgroup_id, unnest([node, {_PLACE} || container_id, {_PLACE} || cgroup_path]) AS hole_of
  FROM containers
UNION ALL
SELECT cgroup_id, {_PLACE} || array_to_string(names[:depth], '/')
  FROM (SELECT *, string_split(cgroup_path, '/') AS names FROM containers),
       range(2, len(names)) AS d(depth)"""
# What a tenant's session sees of holes is its own, or may be.
_OWN_HOLE_OF: Final = "SELECT cgroup_id, 'own' AS hole_of FROM tenant.touched"
_OWN_SHARES: Final = "SELECT cgroup_id, 'own' AS hole_of FROM tenant.cgroups"


def create_loss_views(
    connection: Any, root: Path, losses: Sequence[Segment], window: Window
) -> None:
    """Create or replace those of what was lost; ``whole`` is there already."""
    holes = view(connection, LOSSES, root, losses, _wide(connection, window))
    if window.tenant_only:
        holes = f"FROM ({holes}) WHERE {_NO_COUNTS} OR cgroup_id IN ({_COUNTED})"
    connection.execute(f"CREATE OR REPLACE VIEW whole.holes AS {holes}")
    always = replace(_wide(connection, window), from_ns=None, to_ns=None)
    ever = view(connection, LOSSES, root, losses, always)
    own = _OWN_HOLE_OF if window.tenant_only else _HOLE_OF
    connection.execute(
        f"CREATE OR REPLACE VIEW whole.blind AS SELECT *, reason IN ({_NEW}) AS of_new_processes "
        f"FROM ({ever}) JOIN ({own}) USING (cgroup_id) "
        f"WHERE from_ns IS NOT NULL AND lost + shed = 0 AND reason NOT IN ({_CALLS_THERE})"
    )
    anybody = "whole.losses"
    if window.tenant_only:
        anybody = f"({view(connection, LOSSES, root, losses, Window())})"
    connection.execute(f"CREATE OR REPLACE VIEW whole.beats AS SELECT node, {TIME} FROM {anybody}")


def _wide(connection: Any, window: Window) -> Window:
    """Holes are told after they were, and of more cgroups than have rows."""
    late = None if window.to_ns is None else window.to_ns + TOLD_WITHIN_NS
    wide = replace(window, to_ns=late, whose="tenant.touched")
    if window.cgroups is None:
        return wide
    rows = connection.execute("SELECT cgroup_id FROM tenant.touched").fetchall()
    return replace(wide, cgroups=tuple(cgroup_id for (cgroup_id,) in rows))


def create_owners(connection: Any, window: Window) -> None:
    """Create or replace the view of who has holes; ``containers`` is there already."""
    owners = "tenant.touched" if window.tenant_only else "containers"
    connection.execute(
        f"CREATE OR REPLACE VIEW whole.owners AS SELECT cgroup_id, tenant FROM {owners}"
    )
    sharing = _OWN_SHARES if window.tenant_only else _SHARES
    connection.execute(f"CREATE OR REPLACE VIEW whole.sharing AS {sharing}")


def create_recordings(connection: Any, rows: Any | None, window: Window) -> None:
    """Create or replace the table of recordings, of the rows of ``sessions``."""
    connection.execute(_NO_RECORDINGS)
    connection.execute(
        "CREATE OR REPLACE TABLE whole.bounds AS "
        "SELECT $from::BIGINT AS from_ns, $to::BIGINT AS to_ns",
        window.bounds(),
    )
    if rows is None:
        return
    wanted = rows.select(["node", "started_ns", "ended_ns", "notes", "spans_until_ns"]).to_pylist()
    # Of the notes no more than this: they name processes of all tenants.
    told = [
        (
            *(row[name] for name in ("node", "started_ns", "ended_ns")),
            _hooks_refused(row["notes"]),
            row["spans_until_ns"],
        )
        for row in wanted
    ]
    connection.register("told_now", _columns(told))
    try:
        connection.execute("INSERT INTO whole.recordings FROM told_now")
    finally:
        connection.unregister("told_now")
    if window.tenant_only:
        # Where the tenant never was, nothing of it is missing.
        connection.execute(
            "DELETE FROM whole.recordings WHERE node NOT IN (SELECT node FROM containers)"
        )


def _columns(rows: Sequence[tuple[Any, ...]]) -> Any:
    import pyarrow as pa

    names = ("node", "started_ns", "ended_ns", "hooks_refused", "spans_until_ns")
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})


def _hooks_refused(notes: str | None) -> str:
    """What a recording's notes say; nothing where they are not as we write them."""
    try:
        told = parse_json(notes or "{}")["hooks_refused"]
        return json.dumps({str(program): str(text) for program, text in told.items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return "{}"
