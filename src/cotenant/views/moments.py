"""Moments for people: in the zone of whoever looks, or in UTC; programs get nanoseconds."""

from datetime import UTC, datetime, tzinfo

from cotenant.query.engine.answer import Interval
from cotenant.query.text.time_syntax import read_utc

_SECOND_NS = 1_000_000_000


class _ShownZone:
    """In which zone moments are shown; None is the local one."""

    chosen: tzinfo | None = None


def show_utc(utc: bool) -> None:
    """Show and read moments in UTC from now on, or in the local zone."""
    _ShownZone.chosen = UTC if utc else None
    read_utc(utc)


def _local(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // _SECOND_NS, UTC).astimezone(_ShownZone.chosen)


def moment(ns: int) -> str:
    """``2026-09-21 14:13:20``."""
    return f"{_local(ns):%Y-%m-%d %H:%M:%S}"


def zone(ns: int) -> str:
    """The zone of that moment: ``UTC``, ``CEST``."""
    return f"{_local(ns):%Z}"


def with_zone(ns: int) -> str:
    """``2026-09-21 14:13:20 UTC``."""
    return f"{moment(ns)} {zone(ns)}"


def interval(covered: Interval) -> str:
    """``2026-09-21 14:13:20 to 14:15:01 UTC``; both zones, if the clocks went back between them."""
    start, end = moment(covered.start_ns), moment(covered.end_ns)
    if zone(covered.start_ns) != zone(covered.end_ns):
        return f"{with_zone(covered.start_ns)} to {with_zone(covered.end_ns)}"
    if start[:10] == end[:10]:
        end = end[11:]
    return f"{start} to {end} {zone(covered.end_ns)}"
