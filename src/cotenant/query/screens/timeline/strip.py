"""The strip above a timeline: when each tenant had events, over all of a large store."""

from typing import Any, Final

from cotenant.query.engine.session import Session

CELLS: Final = 1024
_SECOND_NS: Final = 1_000_000_000  # Rollups are by the second.


def strip(session: Session, start_ns: int, end_ns: int) -> dict[str, Any]:
    """The length of a cell, and by tenant the cells with events in them."""
    cell_ns = max(_SECOND_NS, -(-(end_ns - start_ns) // CELLS))
    found = session.ask(
        f"""SELECT c.tenant, greatest(r.timestamp_ns - {start_ns}, 0) // {cell_ns} AS cell
  FROM rollups r
  JOIN containers c USING (cgroup_id)
 WHERE r.timestamp_ns > {start_ns - _SECOND_NS}
   AND r.timestamp_ns < {end_ns}
 GROUP BY ALL
 ORDER BY ALL"""
    )
    cells: dict[str, list[int]] = {}
    for row in found.rows():
        cells.setdefault(row["tenant"], []).append(row["cell"])
    return {"cell_ns": cell_ns, "tenants": cells}
