"""The state of a store as the timeline shows it: how new, how complete, and whether it grows."""

from typing import Final

from cotenant.query.engine.answer import Standing
from cotenant.query.engine.session import Session
from cotenant.query.screens.timeline.newest import EVENT_TABLES, newest_known_ns

_ALSO_SHOWN: Final = ("spans", "gpu_memory")
_OPEN: Final = "SELECT count(*) AS open FROM sessions WHERE ended_ns IS NULL"


def newest_ns(session: Session) -> int | None:
    """When the last event began; None in a store without events."""
    # Few rows are as new as that; those of one tenant may all be older.
    newest = _newest_ns(session, newest_known_ns(session.segments))
    return _newest_ns(session, 0) if newest is None else newest


def _newest_ns(session: Session, since_ns: int) -> int | None:
    each = " UNION ALL ".join(
        f"SELECT max(timestamp_ns) AS newest_ns FROM {name} WHERE timestamp_ns >= {since_ns}"
        for name in EVENT_TABLES
    )
    (row,) = session.ask(f"SELECT max(newest_ns) AS newest_ns FROM ({each})").rows()
    newest: int | None = row["newest_ns"]
    return newest


def standing(session: Session) -> Standing:
    """How complete the tables are that lanes are made from."""
    return session.standing((*EVENT_TABLES, *_ALSO_SHOWN))


def has_open_recording(session: Session) -> bool:
    """Whether a recording has begun and not ended; one that was killed never ends."""
    (row,) = session.ask(_OPEN).rows()
    return bool(row["open"])
