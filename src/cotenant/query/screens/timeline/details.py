"""The rows behind a slice or a cell of the timeline, as SQL that can be run again."""

from collections.abc import Sequence
from typing import Final

from cotenant.query.screens.timeline.lanes import Lane
from cotenant.query.screens.timeline.rows import duration
from cotenant.query.text.sql import quoted
from cotenant.schema.families import FAMILIES

NAMES: Final = 7  # As many as one reads in a tooltip.


def event_sql(family: str, timestamp_ns: int, tid: int) -> str:
    """The whole row of one slice, with its tenant."""
    table = FAMILIES[family].table.name
    return f"""SELECT c.tenant, e.*
  FROM {table} e
  JOIN containers c USING (cgroup_id)
 WHERE e.timestamp_ns = {timestamp_ns}
   AND e.tid = {tid}"""


def _lane_condition(lane: Lane, others: Sequence[Lane]) -> str:
    family = FAMILIES[lane.family]
    conditions = [f"c.tenant = {quoted(lane.tenant)}"]
    if lane.node is not None and len({other.node for other in others}) > 1:
        conditions.append(f"c.node = {quoted(lane.node)}")
    for column in () if lane.shared else family.lanes_by:
        value = getattr(lane, column)
        conditions.append(f"e.{column} IS NULL" if value is None else f"e.{column} = {value}")
    if lane.shared:
        mine = [other for other in others if _sibling(lane, other)]
        pairs = ", ".join(f"({o.pid}, {o.stream or 0})" for o in mine)
        conditions.append(f"(e.pid, coalesce(e.stream, 0)) NOT IN ({pairs})")
    return "\n   AND ".join(conditions)


def _sibling(lane: Lane, other: Lane) -> bool:
    same = (lane.family, lane.tenant, lane.node) == (other.family, other.tenant, other.node)
    return same and not other.shared and other.pid is not None


def cell_sql(lane: Lane, others: Sequence[Lane], start_ns: int, end_ns: int) -> str:
    """A lane's events in an interval, by name, the most time first."""
    family = FAMILIES[lane.family]
    return f"""SELECT {family.label} AS name,
       sum(e.weight)::BIGINT AS events,
       sum({duration(family)} * e.weight)::BIGINT AS total_ns,
       max({duration(family)})::BIGINT AS longest_ns
  FROM {family.table.name} e
  JOIN containers c USING (cgroup_id)
 WHERE e.timestamp_ns >= {start_ns}
   AND e.timestamp_ns < {end_ns}
   AND {_lane_condition(lane, others)}
   AND {family.shown}
 GROUP BY ALL
 ORDER BY total_ns DESC, events DESC
 LIMIT {NAMES}"""
