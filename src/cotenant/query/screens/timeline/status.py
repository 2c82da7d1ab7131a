"""The state of a store as the timeline shows it: how new, how complete, and whether it grows."""

from typing import Final

from cotenant.query.engine.answer import Standing
from cotenant.query.engine.session import Session
from cotenant.schema.families import FAMILIES

_NEWEST: Final = " UNION ALL ".join(
    f"SELECT max(timestamp_ns) AS newest_ns FROM {family.table.name}"
    for family in FAMILIES.values()
)
_OPEN: Final = "SELECT count(*) AS open FROM sessions WHERE ended_ns IS NULL"


def newest_ns(session: Session) -> int | None:
    """When the last event began; None in a store without events."""
    (row,) = session.ask(f"SELECT max(newest_ns) AS newest_ns FROM ({_NEWEST})").rows()
    newest: int | None = row["newest_ns"]
    return newest


def standing(session: Session) -> Standing:
    """How complete the tables are that lanes are made from."""
    return session.standing(family.table.name for family in FAMILIES.values())


def has_open_recording(session: Session) -> bool:
    """Whether a recording has begun and not ended; one that was killed never ends."""
    (row,) = session.ask(_OPEN).rows()
    return bool(row["open"])
