"""Text for people: values, numbers in the units one thinks in, and how complete they are."""

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from cotenant.printable import escaped_json, printable
from cotenant.query.engine.answer import Hole, Standing
from cotenant.schema.holes import REASONS
from cotenant.views.moments import interval, moment, zone

NULL: Final = "NULL"
_NAMED: Final = 3  # Tenants with a hole that are named one by one.


def count(number: int) -> str:
    """``1,234``."""
    return f"{number:,}"


def duration(ns: float) -> str:
    """``1.23 ms``: three digits and the unit that makes them few."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        # What rounds up to 1000 of a unit is 1 of the next.
        if abs(ns) >= size * 0.9995:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{_three_digits(ns)} ns"


def size(number: float) -> str:
    """``1.50 GiB``."""
    for unit, of in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(number) >= of:
            return f"{_three_digits(number / of)} {unit}"
    return f"{number:.0f} B"


def _three_digits(number: float) -> str:
    if number == int(number) and abs(number) < 1000:
        return str(int(number))
    digits = max(0, 2 - int(math.log10(abs(number)))) if abs(number) >= 1 else 2
    return f"{number:,.{digits}f}"


def plain(value: Any) -> Any:
    """A value as JSON knows it: exact numbers, text for the rest, None for what is no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value)


def lines(text: str) -> str:
    """Lines that move no cursor."""
    return printable(text, but="\n")


def as_json(value: Any) -> str:
    """A value as JSON: exact, and of characters that can be printed."""
    return escaped_json(json.dumps(value, ensure_ascii=False, indent=1))


def cell(value: Any) -> str:
    """A value as it stands in a table: on one line, and NULL apart from an empty text."""
    value = plain(value)
    if value is None:
        return NULL
    if isinstance(value, float):
        if 0.001 <= abs(value) < 1e9 or value == 0:
            return f"{value:.3f}"
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.6g}"
    if isinstance(value, str):
        return printable(value)
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def incompleteness(standing: Standing) -> list[str]:
    """One line for each thing that an answer lacks; none where it lacks nothing."""
    lines = []
    for loss in standing.losses:
        if loss.lost:
            lines.append(
                f"incomplete: {count(loss.lost)} of {count(loss.seen)} {loss.family} events "
                "were lost"
            )
        if loss.shed:
            lines.append(
                f"incomplete: {count(loss.shed)} of {count(loss.seen)} {loss.family} events have "
                "no row of their own, but count in the weight of others"
            )
    if standing.missing_segments:
        lines.append(f"incomplete: {count(standing.missing_segments)} segments are missing")
    if standing.left_behind:
        lines.append(
            f"incomplete: not all rows of {' and '.join(standing.left_behind)} are in this store; "
            "`cotenant pull` brings them from their node"
        )
    # Recorded by an agent, but from a file that others may have written.
    lines += [f"incomplete: {cell(words)}" for words in standing.unrecorded]
    lines += [f"incomplete: {cell(_hole(hole))}" for hole in standing.holes]
    return lines


def _hole(hole: Hole) -> str:
    """``cuda events of train missing for 1.23 s from 2026-09-21 14:13:20.120 UTC (why)``."""
    start = hole.interval.start_ns
    began = f"{moment(start)}.{start // 1_000_000 % 1000:03} {zone(start)}"
    when = f"for {duration(hole.blind_ns)} from {began}"
    if not hole.families:
        return f"{hole.reason} {when}"
    reason = REASONS.get(hole.reason)
    if reason and reason.op:
        return f"{reason.what} of {_whose(hole.tenants)} are not recorded ({reason.name})"
    what = (reason and reason.what) or f"{' and '.join(hole.families)} events"
    many = f"{count(hole.unseen)} " if hole.unseen is not None else ""
    return f"{many}{what} of {_whose(hole.tenants)} missing {when} ({hole.reason})"


def _whose(tenants: Sequence[str]) -> str:
    if not tenants:
        return "somebody"
    if len(tenants) > _NAMED:
        return f"{', '.join(tenants[:_NAMED])} and others"
    return " and ".join(tenants)


def summary(rows: int, standing: Standing, tenant: str | None = None) -> str:
    """The last line of a table: how many rows, of whom and when, and whether that is all."""
    parts = [f"{count(rows)} row" if rows == 1 else f"{count(rows)} rows"]
    if tenant:
        parts.append(f"of {tenant}")
    if standing.interval:
        parts.append(interval(standing.interval))
    if standing.losses and standing.complete:
        parts.append("complete")
    return f"({'; '.join(parts)})"
