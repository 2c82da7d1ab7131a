"""``cotenant ship``: sends what a store has to another one, for questions over many nodes."""

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.errors import CotenantError
from cotenant.query.text.time_syntax import period_ns
from cotenant.remote.near import NearNode
from cotenant.remote.pace import Pace
from cotenant.remote.place import FarPlace, place_of
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import ALL_ROWS, BY_MINUTE
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.amounts import bytes_per_second
from cotenant.views.moments import with_zone
from cotenant.views.window import add_node_argument

HELP = (
    "Send a store to another one: what each tenant did by the minute, or every row. "
    "What is there already is not sent again, whenever and however it was stopped."
)
EXAMPLES = """
examples:
  cotenant ship --to s3://fleet/cotenant                 # from now on, what is new each minute
  cotenant ship --to s3://fleet/cotenant --once          # what there is, and end
  cotenant ship --to /mnt/fleet --bandwidth 10MB/s       # into a directory, no faster than this
  cotenant ship --to s3://fleet/cotenant --keep 90d      # older days of this node go from there
  cotenant ship --to /mnt/case --rows --once             # every row of every table
  AWS_ENDPOINT_URL=https://rgw:8443 cotenant ship --to s3://fleet --once
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument(
        "--to", required=True, metavar="WHERE", help="s3://BUCKET/PREFIX, or a directory"
    )
    parser.add_argument(
        "--rows",
        action="store_true",
        help="every row of every table (default: by the minute, and NCCL calls across nodes)",
    )
    add_node_argument(parser)
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="take over a node of this name that another machine shipped, as of a reimaged host",
    )
    parser.add_argument("--once", action="store_true", help="end when everything is sent")
    parser.add_argument(
        "--every", default="60s", metavar="TIME", help="how often to look (default: 60s)"
    )
    parser.add_argument(
        "--keep",
        metavar="TIME",
        help="delete from the other store whole days of these nodes that are older than this: 90d "
        "(default: nothing)",
    )
    parser.add_argument(
        "--bandwidth",
        type=bytes_per_second,
        metavar="RATE",
        help="send no faster than this: 10MB/s, 500k (default: as fast as it goes)",
    )
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Send until stopped; with ``--once``, what there is."""
    every_s = period_ns(args.every) / 1e9
    fleet = _Fleet(args, place_of(args.to), Pace(args.bandwidth))
    if args.once:
        return fleet.ship()
    while True:
        began = time.monotonic()
        fleet.ship()
        time.sleep(max(0, began + every_s - time.monotonic()))


@dataclass
class _Fleet:
    """The nodes of a store, and what was last said of each."""

    args: argparse.Namespace
    place: FarPlace
    pace: Pace
    shippers: dict[str, Shipper] = field(default_factory=dict)
    complaints: dict[str, str] = field(default_factory=dict)

    def ship(self) -> int:
        """One pass over all nodes; 1 if one of them failed."""
        failed = 0
        try:
            wanted = self._nodes()
        except CotenantError as error:
            self._complain("", error)
            return 1
        for node in wanted:
            try:
                self._ship(node)
                self.complaints.pop(node, None)
            except CotenantError as error:
                self._complain(node, error)
                failed = 1
        return failed

    def _nodes(self) -> list[str]:
        root = Path(self.args.store)
        check_readable(root)
        nodes = Nodes(root, self.args.node)
        nodes.check()
        return nodes.chosen()

    def _ship(self, node: str) -> None:
        shipper = self.shippers.get(node) or self._shipper(node)
        self.shippers[node] = shipper
        keep_ns = period_ns(self.args.keep) if self.args.keep else None
        closing = Closing(time.time_ns(), shipper.near.at_rest(), keep_ns=keep_ns)
        sent, until_ns = shipper.ship(closing)
        if missing := len(shipper.near.manifest.missing):
            self._say(f"{node} lacks", f"{node}: {missing} segments are missing; the rest is sent")
        if sent.objects or self.args.once:
            until = f"; there until {with_zone(until_ns)}" if until_ns else ""
            words = f"{node}: sent {sent.objects} objects, {text.size(sent.bytes)}{until}"
            print(text.cell(words), flush=True)

    def _shipper(self, node: str) -> Shipper:
        near = NearNode(Path(self.args.store), node)
        tables = ALL_ROWS if self.args.rows else BY_MINUTE
        return Shipper(near, self.place, tables, self.pace, self.args.adopt)

    def _complain(self, node: str, error: CotenantError) -> None:
        """On stderr, once as long as it stays the same: a far store may be away for days."""
        if self.args.once and not node:
            raise error
        self._say(node, f"{node}: {error}" if node else str(error))

    def _say(self, about: str, words: str) -> None:
        if self.complaints.get(about) != words:
            print(f"cotenant ship: {text.cell(words)}", file=sys.stderr, flush=True)
            self.complaints[about] = words
