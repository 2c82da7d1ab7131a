"""Options that narrow a question to a tenant and a time."""

import argparse
import re
from datetime import UTC, datetime
from typing import Any, Final

from cotenant.errors import UsageError

_UNITS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}


def duration_ns(text: str) -> int:
    """``90s``, ``5m``, ``2h`` in nanoseconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if not match:
        raise UsageError(f"{text!r} is no duration; write 90s, 5m or 2h")
    return round(float(match[1]) * _UNITS[match[2]])


def moment_ns(text: str) -> int:
    """``2026-09-21T14:13:20`` (UTC unless it says otherwise), or nanoseconds since 1970."""
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time; write 2026-09-21T14:13:20") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1_000


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """``--tenant``, ``--since``, ``--from`` and ``--to``."""
    parser.add_argument("--tenant", metavar="NAME", help="only what this tenant did")
    parser.add_argument("--since", metavar="DURATION", help="only the last 90s, 5m, 2h, ...")
    parser.add_argument("--from", dest="from_", metavar="TIME", help="only from this time on (UTC)")
    parser.add_argument("--to", metavar="TIME", help="only before this time (UTC)")


def window(args: argparse.Namespace) -> dict[str, Any]:
    """What the options mean to a session."""
    if args.since and args.from_:
        raise UsageError("--since and --from both say where to begin; give one of them")
    return {
        "tenant": args.tenant,
        "since_ns": duration_ns(args.since) if args.since else None,
        "from_ns": moment_ns(args.from_) if args.from_ else None,
        "to_ns": moment_ns(args.to) if args.to else None,
    }
