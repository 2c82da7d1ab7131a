"""The newest recording of a store: its libraries and processes."""

import json
from dataclasses import dataclass
from typing import Any

from cotenant.query.engine.session import Session


@dataclass(frozen=True, slots=True)
class LastRecording:
    """The columns of a row of ``sessions`` that show how complete the recording is."""

    started_ns: int
    libraries: tuple[dict[str, Any], ...]
    processes: tuple[dict[str, Any], ...]
    kernel_cost: dict[str, Any]  # What programs on kernel events took; empty where it is not known.
    left_to_totals: dict[str, Any]  # What became no row for that.


def last_recording(session: Session) -> LastRecording | None:
    """The newest recording; None where nothing was recorded."""
    rows = session.ask(
        "SELECT started_ns, libraries, coverage, notes FROM sessions "
        "ORDER BY started_ns DESC LIMIT 1"
    ).rows()
    for row in rows:
        processes = json.loads(row["coverage"] or "[]")
        notes = json.loads(row["notes"] or "{}")
        return LastRecording(
            row["started_ns"],
            tuple(json.loads(row["libraries"] or "[]")),
            tuple(sorted(processes, key=lambda p: -(p["runtime"] + p["driver_alone"]))),
            notes.get("kernel_cost", {}),
            notes.get("left_to_totals", {}),
        )
    return None
