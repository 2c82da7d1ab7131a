"""Options of verbs that print a table."""

import argparse

from cotenant.views.moments import show_utc
from cotenant.views.tables import Layout


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """``--wide``, ``--vertical`` and ``--utc``."""
    parser.add_argument(
        "--wide", action="store_true", help="print every column, whole, however wide the screen"
    )
    parser.add_argument("--vertical", action="store_true", help="print each value on its own line")
    add_utc_argument(parser)


def add_utc_argument(parser: argparse.ArgumentParser) -> None:
    """``--utc``."""
    parser.add_argument("--utc", action="store_true", help="show times in UTC, not in local time")


def chosen_layout(args: argparse.Namespace) -> Layout:
    """How this command's table is laid out."""
    show_utc(args.utc)
    return Layout.of_output(wide=args.wide, vertical=args.vertical, way_out="--wide")
