"""``cotenant top``: shows tenants live in the terminal."""

import argparse
import sys
from pathlib import Path

from cotenant.errors import CotenantError
from cotenant.query.text.time_syntax import period_ns
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.layout import add_layout_arguments, chosen_layout
from cotenant.views.tables import Layout, table
from cotenant.views.window import add_node_argument

HELP = "Show what each tenant does, live; of a finished recording, its end. Needs no privilege."
EXAMPLES = """
examples:
  cotenant top
  cotenant top --window 1m --tenant ml/train
  cotenant top --once               # print once, as text
  cotenant top --once --json        # exact numbers, for a program
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant")
    add_node_argument(parser)
    parser.add_argument(
        "--window", default="10s", metavar="TIME", help="average rates over this (default: 10s)"
    )
    parser.add_argument("--once", action="store_true", help="print once and exit")
    parser.add_argument(
        "--json", action="store_true", help="with --once: print an array of objects"
    )
    add_layout_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Show until stopped."""
    from cotenant.views.tui.sample import SampleSource

    nodes = tuple(args.node)
    source = SampleSource(Path(args.store), args.tenant, period_ns(args.window) / 1e9, nodes)
    if args.once or args.json or not sys.stdout.isatty():
        return _once(source, chosen_layout(args), as_json=args.json)
    try:
        from cotenant.views.tui.app import Top
    except ModuleNotFoundError as error:
        raise CotenantError(
            f"`top` needs the package {error.name}; run pip install 'cotenant[look]'"
        ) from error
    Top(source).run()
    return 0


def _once(source: object, layout: Layout, *, as_json: bool) -> int:
    from cotenant.views.tui.columns import COLUMNS
    from cotenant.views.tui.sample import SampleSource

    assert isinstance(source, SampleSource)
    sample = source.take()
    if as_json:
        rows = [{key: text.plain(value) for key, value in row.items()} for row in sample.rows]
        print(text.as_json(rows))
    else:
        names = ["tenant", *(column.title for column in COLUMNS)]
        shown = [[row["tenant"], *(c.cell(row) for c in COLUMNS)] for row in sample.rows]
        print(*table(names, shown, layout, frozenset({"tenant"})), sep="\n")
        if slowed := source.slowed():
            print(slowed)
    for line in sample.lacks:
        print(line, file=sys.stderr)
    return 0
