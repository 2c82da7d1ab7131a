"""Rows of a family as slices, under the names that every query of the timeline uses."""

from cotenant.schema.family import Family


def duration(family: Family) -> str:
    """SQL: how long an event lasted; 0 where that is not known."""
    return "coalesce(duration_ns, 0)" if family.has_duration else "0::BIGINT"


def rows(family: Family) -> str:
    """SQL: one row per slice."""
    pid = "pid" if "pid" in family.lanes_by else "NULL::INTEGER"
    stream = "stream" if "stream" in family.lanes_by else "NULL::BIGINT"
    return (
        f"SELECT cgroup_id, {pid} AS pid, {stream} AS stream, timestamp_ns AS began_ns, "
        f"{duration(family)} AS d, {family.label} AS label, tid, weight "
        f"FROM {family.table.name} WHERE {family.shown}"
    )
