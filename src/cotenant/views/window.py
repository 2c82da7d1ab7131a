"""Options that narrow a question to a tenant and a time."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cotenant.errors import StoreError, UsageError
from cotenant.query.engine.recorded_times import STILL_NS, recorded_times
from cotenant.query.engine.session import QueryLimits
from cotenant.query.text.time_syntax import duration_ns, moment_ns, period_ns
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes
from cotenant.views.moments import interval, show_utc

__all__ = [
    "STILL_NS",
    "add_node_argument",
    "add_window_arguments",
    "duration_ns",
    "moment_ns",
    "period_ns",
    "window",
]


def add_node_argument(parser: argparse.ArgumentParser) -> None:
    """The ``--node`` option of every verb that reads a store."""
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME",
        help="only what this node recorded; repeatable (default: all nodes of the store)",
    )


def add_window_arguments(parser: argparse.ArgumentParser) -> None:
    """``--tenant``, ``--node``, ``--since``, ``--from`` and ``--to``."""
    parser.add_argument("--tenant", metavar="NAME", help="only rows of this tenant")
    add_node_argument(parser)
    parser.add_argument(
        "--since",
        metavar="DURATION",
        help="only the last 90s, 5m, 2h, ... before now, or before the recording's end",
    )
    parser.add_argument("--from", dest="from_", metavar="TIME", help="only from this time on")
    parser.add_argument(
        "--to", metavar="TIME", help="only before this time; read in the zone that times have here"
    )
    parser.add_argument(
        "--timeout",
        default="5m",
        metavar="DURATION",
        help="give up after this: 30s, 5m (default: 5m)",
    )


def window(args: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of a ``Session``."""
    show_utc(getattr(args, "utc", False))
    if args.since is not None and args.from_ is not None:
        raise UsageError("--since and --from both set the start; give one of them")
    from_ns = moment_ns(args.from_) if args.from_ is not None else None
    to_ns = moment_ns(args.to) if args.to is not None else None
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError(
            f"--from {args.from_} is not before --to {args.to}; give an earlier --from"
        )
    since_ns = duration_ns(args.since) if args.since is not None else None
    if (
        since_ns is not None
        and to_ns is None
        and (ended_ns := _ended(Path(args.store), args.node)) is not None
    ):
        from_ns, since_ns = ended_ns - since_ns, None
    _check_recorded(Path(args.store), args.node, from_ns, to_ns)
    return {
        "limits": QueryLimits(
            seconds=period_ns(args.timeout) / 1e9,
            watched=True,
            throughout=args.since is None,  # Which is as much as there is.
        ),
        "tenant": args.tenant,
        "nodes": tuple(args.node),
        "since_ns": since_ns,
        "from_ns": from_ns,
        "to_ns": to_ns,
    }


def _check_recorded(
    store: Path, nodes: Sequence[str], from_ns: int | None, to_ns: int | None
) -> None:
    """StoreError if nothing was recorded in the window, with what was recorded next to it."""
    if from_ns is None and to_ns is None:
        return
    check_readable(store)
    times = recorded_times(store, nodes)
    before = [each for each in times if from_ns is not None and each.end_ns < from_ns]
    after = [each for each in times if to_ns is not None and each.start_ns >= to_ns]
    if times and len(before) + len(after) == len(times):
        recorded = " and ".join(interval(each) for each in (*before[-1:], *after[:1]))
        raise StoreError(f"nothing was recorded in this window; recorded is {recorded}")


def _ended(store: Path, nodes: Sequence[str]) -> int | None:
    """When the newest recording of the nodes ended; None while it goes on, or if there is none."""
    check_readable(store)
    segments = Nodes(store, nodes).segments()
    newest = max((s.max_ns for s in segments if s.max_ns is not None), default=None)
    if newest is None or time.time_ns() - newest < STILL_NS:
        return None
    return newest + 1
