"""Durations and times as people type them."""

import re
import time
from datetime import UTC, datetime
from typing import Final

from cotenant.errors import UsageError

_SHOWN: Final = 24  # Characters of a number that is absurd anyhow.
_MOST_NS: Final = (1 << 63) - 1  # What a column of times holds: 292 years.
_UNITS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}


def duration_ns(text: str) -> int:
    """``90s``, ``5m``, ``2h`` in nanoseconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a duration; write 90s, 5m or 2h")
    duration = float(match[1]) * _UNITS[match[2]]
    if duration > _MOST_NS:
        raise UsageError(f"{_short(text)} is longer than 292 years; write 90s, 5m or 2h")
    return round(duration)


def period_ns(text: str) -> int:
    """A duration that is not nothing."""
    period = duration_ns(text)
    if not period:
        raise UsageError(f"{text!r} is zero; write 90s, 5m or 2h")
    return period


class _Zone:
    """In which zone times without one are read."""

    utc: bool = False


def read_utc(utc: bool) -> None:
    """Read times in UTC from now on, or in the local zone."""
    _Zone.utc = utc


def moment_ns(text: str) -> int:
    """``2026-09-21 14:13:20`` in the zone in which times are shown, or nanoseconds since 1970.

    The time may name its zone, as it is printed or in ISO 8601.
    """
    if text.isdecimal():
        if len(text) > len(str(_MOST_NS)) or int(text) > _MOST_NS:
            raise UsageError(f"{_short(text)} ns is after the year 2262; write 2026-09-21T14:13:20")
        return int(text)
    zoned = re.fullmatch(r"(.*\d) ?([A-Z]{2,5})", text)
    utc = zoned[2] == "UTC" if zoned else _Zone.utc
    if zoned and not utc and zoned[2] not in time.tzname:
        raise UsageError(
            f"{_short(text)}: unknown zone {zoned[2]}; write 2026-09-21T14:13:20+02:00"
        )
    try:
        moment = datetime.fromisoformat(zoned[1] if zoned else text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time; write 2026-09-21T14:13:20") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC) if utc else moment.astimezone()
    return round(moment.timestamp() * 1_000_000) * 1_000


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
