"""Options that narrow a question to a tenant and a time."""

import argparse
from typing import Any

from cotenant.errors import UsageError
from cotenant.query.text.time_syntax import duration_ns, moment_ns, period_ns

__all__ = ["add_window_arguments", "duration_ns", "moment_ns", "period_ns", "window"]


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """``--tenant``, ``--since``, ``--from`` and ``--to``."""
    parser.add_argument("--tenant", metavar="NAME", help="only rows of this tenant")
    parser.add_argument("--since", metavar="DURATION", help="only the last 90s, 5m, 2h, ...")
    parser.add_argument("--from", dest="from_", metavar="TIME", help="only from this time on (UTC)")
    parser.add_argument("--to", metavar="TIME", help="only before this time (UTC)")


def window(args: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of a ``Session``."""
    if args.since is not None and args.from_ is not None:
        raise UsageError("--since and --from both set the start; give one of them")
    from_ns = moment_ns(args.from_) if args.from_ is not None else None
    to_ns = moment_ns(args.to) if args.to is not None else None
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError(
            f"--from {args.from_} is not before --to {args.to}; give an earlier --from"
        )
    return {
        "tenant": args.tenant,
        "since_ns": duration_ns(args.since) if args.since is not None else None,
        "from_ns": from_ns,
        "to_ns": to_ns,
    }
