"""The view of a table over its current segments; a snapshot is copied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cotenant.query.engine.guard import blanked
from cotenant.query.engine.window import TIME, Window
from cotenant.query.text.sql import quoted
from cotenant.schema import TABLES, Column, Table
from cotenant.store.manifest import Segment, schema_id

STORED: Final = "stored"  # Where tables are that derived ones of the same name unite with others.
_TIMED: Final = "cuda_events"
_TIMINGS: Final = "gpu_timings"
WHOLE: Final = ("nccl_events", "losses")
_SPANS: Final = "spans"
# Tables of samples, each of the time since the one before: what adds up in them.
SAMPLED: Final = {
    "totals": ("count", "sum_ns", "bytes", "unmeasured"),
    "cpu_contention": ("waited_ns",),
}
BEGUN: Final = "coalesce(since_ns, timestamp_ns - 1000000000)"
_SAMPLE_NS: Final = 60_000_000_000  # No sample is of more, however busy the host.
# No span is held for longer without a proof; a proof waits for calls that return late.
_SPAN_NS: Final = 660_000_000_000
_SQL_TYPES: Final = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int16": "SMALLINT",
    "int8": "TINYINT",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "list<int64>": "BIGINT[]",
}
# These list every process of the host, so a tenant's session has NULL in them.
_HOST_ONLY: Final = frozenset({"libraries", "coverage", "notes"})


def has_node(table: Table) -> bool:
    """Whether the node is a column of the table itself, not only of its path."""
    return any(column.name == "node" for column in table.columns)


def _hidden(column: Column, window: Window) -> bool:
    return window.tenant_only and column.name in _HOST_ONLY


def _empty(table: Table) -> str:
    columns = [f"NULL::{_SQL_TYPES[c.type]} AS {c.name}" for c in table.columns]
    if not has_node(table):
        columns.append("NULL::VARCHAR AS node")
    return f"SELECT {', '.join(columns)} WHERE false"


def _scan(table: Table, root: Path, segments: Sequence[Segment], *, mixed: bool) -> str:
    files = ", ".join(quoted(str(root / segment.path)) for segment in segments)
    hive = "false" if has_node(table) else "true"
    return (
        f"read_parquet([{files}], union_by_name = {str(mixed).lower()}, "
        f"hive_partitioning = {hive}, hive_types_autocast = false)"
    )


def _selected(table: Table, window: Window, present: frozenset[str] | None) -> str:
    columns = []
    for c in table.columns:
        if _hidden(c, window) or (present is not None and c.name not in present):
            columns.append(f"NULL::{_SQL_TYPES[c.type]} AS {c.name}")
        elif present is not None:
            columns.append(f"{c.name}::{_SQL_TYPES[c.type]} AS {c.name}")
        else:
            columns.append(c.name)
    if not has_node(table):
        columns.append("node")
    return ", ".join(columns)


def _present(connection: Any, scan: str) -> frozenset[str]:
    found = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    return frozenset(name for name, *_ in found)


def _where(table: Table, window: Window) -> str:
    conditions = window.conditions(table)
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def view(
    connection: Any, table: Table, root: Path, segments: Sequence[Segment], window: Window
) -> str:
    """The SELECT of a table's view; it has the schema's columns, whichever a file lacks."""
    segments = [segment for segment in segments if window.covers(segment)]
    if not segments:
        return _empty(table)
    # If all have exactly today's columns, no file's footer has to be read.
    mixed = any(segment.schema != schema_id(table) for segment in segments)
    scan = _scan(table, root, segments, mixed=mixed)
    columns = _selected(table, window, _present(connection, scan) if mixed else None)
    select = f"SELECT {columns} FROM {scan}{_where(table, window)}"
    names = [column.name for column in table.columns]
    if window.cgroups is None or "cgroup_id" not in names:
        return select
    return blanked(select, names if has_node(table) else [*names, "node"], window.cgroups)


def _with_timings(rows: str, timings: str) -> str:
    """Rows of ``cuda_events`` with the times that were measured: imported, else the first."""
    keys = "node, pid, tid, timestamp_ns"
    first = "(coalesce(source, 'elapsed') = 'elapsed', asked_ns)"
    measured = (
        f"SELECT {keys}, arg_min(gpu_ns, {first}) AS measured_ns, "
        f"arg_min(coalesce(source, 'elapsed'), {first}) AS measured_by "
        f"FROM ({timings}) GROUP BY ALL"
    )
    return (
        "SELECT * EXCLUDE (measured_ns, measured_by) REPLACE "
        "(coalesce(measured_ns, gpu_ns) AS gpu_ns, "
        "coalesce(measured_by, gpu_ns_source) AS gpu_ns_source) "
        f"FROM ({rows}) LEFT JOIN ({measured}) USING ({keys})"
    )


def _timed_view(
    connection: Any, root: Path, by_table: Mapping[str, Sequence[Segment]], window: Window
) -> str:
    """The view of ``cuda_events``: joined with timings only where there may be any."""
    rows = [s for s in by_table[_TIMED] if window.covers(s)]
    timings = [s for s in by_table[_TIMINGS] if window.covers(s)]
    recorded = _intervals(timings)
    near = [s for s in rows if s.node in recorded and recorded[s.node].covers(s)]
    if not near:
        return view(connection, TABLES[_TIMED], root, rows, window)
    select = _with_timings(
        view(connection, TABLES[_TIMED], root, near, window),
        view(connection, TABLES[_TIMINGS], root, timings, window),
    )
    far = [s for s in rows if s.node not in recorded or not recorded[s.node].covers(s)]
    if not far:
        return select
    return f"{view(connection, TABLES[_TIMED], root, far, window)} UNION ALL {select}"


def _intervals(segments: Sequence[Segment]) -> dict[str, Window]:
    """Per node, from its first row to its last."""
    found: dict[str, Window] = {}
    for s in segments:
        first, last = s.min_ns or 0, (1 << 62 if s.max_ns is None else s.max_ns) + 1
        known = found.get(s.node, Window(first, last))
        found[s.node] = Window(min(known.from_ns or 0, first), max(known.to_ns or 0, last))
    return found


def reaching_into(window: Window) -> Window:
    """The window in which spans begin that may reach into this one."""
    if window.from_ns is None:
        return window
    return replace(window, from_ns=max(window.from_ns - _SPAN_NS, 0))


def cut_at(begun: str, from_ns: int | None, to_ns: int | None, columns: Iterable[str]) -> str:
    """SQL after ``REPLACE``: of samples that reach over an edge of a window, the part in it.

    A count is divided by time, so that the counts of two halves of a window sum to the whole's.
    """
    within = [f"{begun} >= {from_ns}"] if from_ns is not None else []
    within += [f"{TIME} <= {to_ns}"] if to_ns is not None else []

    def until(edge: int | None, column: str, other: str) -> str:
        if edge is None:
            return other
        part = f"({edge} - {begun}) / greatest({TIME} - {begun}, 1)"
        return f"round({column} * greatest(least({part}, 1), 0))"

    return ", ".join(
        f"CASE WHEN {' AND '.join(within) or 'true'} THEN {name} ELSE "
        f"({until(to_ns, name, name)} - {until(from_ns, name, '0')})::BIGINT END AS {name}"
        for name in columns
    )


def sampled_until(window: Window) -> Window:
    """The window in which samples are taken that may reach back into this one."""
    if window.to_ns is None:
        return window
    return replace(window, to_ns=window.to_ns + _SAMPLE_NS)


def _of_samples(rows: str, window: Window, columns: Iterable[str]) -> str:
    """Samples of the window: of those at its edges the part in it, at times in it."""
    if window.from_ns is None and window.to_ns is None:
        return rows
    cut = cut_at(BEGUN, window.from_ns, window.to_ns, columns)
    cut += f", greatest({BEGUN}, {window.from_ns or 0}) AS since_ns"
    if window.to_ns is None:
        return f"SELECT * REPLACE ({cut}) FROM ({rows})"
    cut += f", least({TIME}, {window.to_ns} - 1) AS {TIME}"
    return f"SELECT * REPLACE ({cut}) FROM ({rows}) WHERE {BEGUN} < {window.to_ns}"


def create_view(
    connection: Any,
    root: Path,
    by_table: Mapping[str, Sequence[Segment]],
    name: str,
    window: Window,
) -> None:
    """Create or replace the view of a table that is no snapshot, and the one without a window."""
    table = TABLES[name]
    if name == _TIMED:
        select = _timed_view(connection, root, by_table, window)
    elif name in SAMPLED:
        rows = view(connection, table, root, by_table[name], sampled_until(window))
        select = _of_samples(rows, window, SAMPLED[name])
    else:
        within = replace(window, from_ns=None, to_ns=None) if table.holds else window
        select = view(connection, table, root, by_table[name], within)
    where = f"{STORED}.{name}" if table.united else name
    connection.execute(f"CREATE OR REPLACE VIEW {where} AS {select}")
    if name == _SPANS:
        reaching = reaching_into(window)
        select = view(connection, table, root, by_table[name], reaching)
        since = "" if window.from_ns is None else f" WHERE end_ns > {window.from_ns}"
        connection.execute(f"CREATE OR REPLACE VIEW whole.{name} AS FROM ({select}){since}")
    if name in WHOLE:
        # For what must be counted from its beginning.
        always = replace(window, from_ns=None, to_ns=None)
        select = view(connection, table, root, by_table[name], always)
        connection.execute(f"CREATE OR REPLACE VIEW whole.{name} AS {select}")


def copy_snapshot(connection: Any, table: Table, rows: Any | None, window: Window) -> None:
    """Create or replace a snapshot's table."""
    if rows is None:
        connection.execute(f"CREATE OR REPLACE TABLE {table.name} AS {_empty(table)}")
        return
    columns = _selected(table, window, frozenset(rows.column_names))
    connection.register("read_now", rows)
    try:
        connection.execute(
            f"CREATE OR REPLACE TABLE {table.name} AS "
            f"SELECT {columns} FROM read_now{_where(table, window)}"
        )
    finally:
        connection.unregister("read_now")
