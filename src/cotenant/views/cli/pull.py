"""``cotenant pull``: brings the rows of one node and time from another store."""

import argparse
import sys
import time
from pathlib import Path
from typing import Final

from cotenant.errors import UsageError
from cotenant.printable import printable
from cotenant.query.engine.changelog_tables import CHANGELOGS
from cotenant.query.text.time_syntax import moment_ns
from cotenant.remote.near import NearNode
from cotenant.remote.pace import Pace
from cotenant.remote.place import FarDirectory
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import ALL_ROWS, BY_MINUTE
from cotenant.schema import EVENTS
from cotenant.schema.dimensions import LOSSES
from cotenant.schema.holes import TOLD_WITHIN_NS
from cotenant.store.layout import check_readable
from cotenant.store.manifest import Segment
from cotenant.store.nodes import Nodes
from cotenant.store.periods import WINDOW_S, around
from cotenant.store.retention import USED_LATER
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.amounts import bytes_per_second
from cotenant.views.moments import with_zone

HELP = (
    "Bring every row that a store has of one node and time into a store of your own: from a "
    "bucket, or from the node's own directory, mounted here."
)
EXAMPLES = """
examples:
  cotenant pull --node gpu-17 --from 2026-09-21T14:00 --to 2026-09-21T14:30 \\
      --store s3://fleet/rows --into /tmp/case
  sshfs gpu-17:/var/lib/cotenant /mnt/gpu-17    # rows that never left their node
  cotenant pull --node gpu-17 --from 2026-09-21T14:00 --to 2026-09-21T14:30 \\
      --store /mnt/gpu-17 --into /tmp/case
  cotenant explain --store /tmp/case
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument(
        "--node", action="append", required=True, metavar="NAME", help="whose rows; repeatable"
    )
    parser.add_argument(
        "--from", dest="from_", required=True, metavar="TIME", help="from this time on"
    )
    parser.add_argument("--to", required=True, metavar="TIME", help="before this time")
    parser.add_argument(
        "--into", required=True, metavar="DIR", help="directory of the store to bring them to"
    )
    parser.add_argument(
        "--bandwidth",
        type=bytes_per_second,
        metavar="RATE",
        help="no faster than this: 10MB/s, 500k (default: as fast as it goes)",
    )
    store_argument(parser)


# Rows of these are needed however long before they were written.
_EARLIER: Final = frozenset({*CHANGELOGS, *USED_LATER})


def bounds(args: argparse.Namespace) -> tuple[int, int]:
    """The time that is asked about, in whole windows: what is brought twice is brought alike."""
    from_ns, to_ns = moment_ns(args.from_), moment_ns(args.to)
    if from_ns >= to_ns:
        raise UsageError(
            f"--from {args.from_} is not before --to {args.to}; give an earlier --from"
        )
    return around(from_ns, WINDOW_S).start_ns, around(to_ns - 1, WINDOW_S).end_ns


def needs(args: argparse.Namespace, segment: Segment) -> bool:
    """Whether an object has to be fetched for this."""
    first_ns, end_ns = bounds(args)
    if segment.min_ns is None or segment.max_ns is None:
        return True
    earlier = segment.table in _EARLIER or segment.max_ns >= first_ns
    return earlier and segment.min_ns < _end_of(segment.table, end_ns)


def _end_of(table: str, end_ns: int) -> int:
    """Until when rows of a table tell of the time before its end."""
    return end_ns + TOLD_WITHIN_NS if table == LOSSES.name else end_ns


def run(args: argparse.Namespace) -> int:
    """Bring what is not there yet."""
    bounds(args)  # They are wrong whatever the store holds.
    root = Path(args.store)
    check_readable(root)
    Nodes(root, args.node).check()
    for node in args.node:
        _pull(args, NearNode(root, node))
    return 0


def _pull(args: argparse.Namespace, near: NearNode) -> None:
    first_ns, end_ns = bounds(args)
    shipper = Shipper(
        near,
        FarDirectory(Path(args.into)),
        ALL_ROWS,
        Pace(args.bandwidth),
        time_wanted=lambda table: (
            0 if table in _EARLIER else first_ns,
            _end_of(table, end_ns),
        ),
    )
    sent, _ = shipper.ship(Closing(time.time_ns(), at_rest=True, folds=False))
    when = f"{with_zone(first_ns)} to {with_zone(end_ns)}"
    node = printable(near.node)
    print(f"{node}: {sent.objects} objects, {text.size(sent.bytes)}, of {when} to {args.into}")
    if missing := len(near.manifest.missing):
        print(f"{node}: {missing} segments are missing; the rest is here", file=sys.stderr)
    shipped = {by_minute.table for by_minute in BY_MINUTE}
    counts = [near.counts(table.name) for table in EVENTS if table.name not in shipped]
    if not any(first_ns <= start < end_ns for found in counts for start in found):
        named = printable(getattr(args, "named_store", args.store))
        print(
            f"{named} has no rows of {node} then, at most what it did by the minute; "
            "name the node's own store",
            file=sys.stderr,
        )
