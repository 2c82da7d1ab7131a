"""Which segments a session in a window reads: of some tables, also what is not of that time."""

from typing import Final

from cotenant.query.engine.changelog_tables import CHANGELOGS
from cotenant.query.engine.tables import SAMPLED, WHOLE, reaching_into, sampled_until
from cotenant.query.engine.window import Window
from cotenant.schema import TABLES
from cotenant.store.manifest import Segment

_EVER: Final = frozenset({*WHOLE, *CHANGELOGS, *(t.name for t in TABLES.values() if t.holds)})


def needed(segment: Segment, window: Window) -> bool:
    """Whether a session in this window may read it, if its table is asked for."""
    if segment.table == "spans":
        window = reaching_into(window)
    if segment.table in SAMPLED:
        window = sampled_until(window)
    return segment.table in _EVER or (segment.table in TABLES and window.covers(segment))
