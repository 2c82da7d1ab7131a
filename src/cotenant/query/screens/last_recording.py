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


def last_recording(session: Session) -> LastRecording | None:
    """The newest recording; None where nothing was recorded."""
    rows = session.ask(
        "SELECT started_ns, libraries, coverage FROM sessions ORDER BY started_ns DESC LIMIT 1"
    ).rows()
    for row in rows:
        processes = json.loads(row["coverage"] or "[]")
        return LastRecording(
            row["started_ns"],
            tuple(json.loads(row["libraries"] or "[]")),
            tuple(sorted(processes, key=lambda p: -(p["runtime"] + p["driver_alone"]))),
        )
    return None
