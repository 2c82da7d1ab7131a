"""Options that narrow a question to a tenant and a time."""

import argparse
from typing import Any

from cotenant.errors import UsageError
from cotenant.query.moments import duration_ns, moment_ns

__all__ = ["add_window_arguments", "duration_ns", "moment_ns", "window"]


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
