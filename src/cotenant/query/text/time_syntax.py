"""Durations and times as people type them."""

import re
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


def moment_ns(text: str) -> int:
    """``2026-09-21T14:13:20`` (UTC unless it says otherwise), or nanoseconds since 1970."""
    if text.isdecimal():
        if len(text) > len(str(_MOST_NS)) or int(text) > _MOST_NS:
            raise UsageError(f"{_short(text)} ns is after the year 2262; write 2026-09-21T14:13:20")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a time; write 2026-09-21T14:13:20") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1_000


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
