"""``cotenant export``: writes a recording for other tools."""

import argparse
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cotenant.errors import CotenantError, UsageError
from cotenant.query.engine.answer import Standing
from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import LOOKED_AT
from cotenant.query.screens.trace import SOURCES
from cotenant.schema import TABLES
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.working import working
from cotenant.views.export import DEFAULTS, FORMATS, export
from cotenant.views.window import add_window_arguments, window

HELP = "Export a recording: as a report, as a Perfetto trace, or as one file per table."
EXAMPLES = """
examples:
  cotenant export html --output friday.html        # a report in one file, to mail
  cotenant export perfetto --since 1m              # cotenant.pftrace, for ui.perfetto.dev
  cotenant export parquet --output friday          # friday/cuda_events.parquet, ...
  cotenant export csv --table cuda_events --tenant ml/train
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("format", choices=FORMATS, metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument(
        "--output",
        metavar="PATH",
        help="a file for html and perfetto (default: cotenant.html, cotenant.pftrace), a directory "
        "for the others (default: cotenant-FORMAT)",
    )
    parser.add_argument(
        "--table", action="append", metavar="NAME", help="only this table; repeatable"
    )
    parser.add_argument(
        "--raw", action="store_true", help="keep tenants' text as it is, in csv and traces"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output")
    add_window_arguments(parser)
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files, and print how many rows."""
    output = Path(args.output or DEFAULTS.get(args.format, f"cotenant-{args.format}"))
    if args.format == "html" and args.tenant is not None:
        raise UsageError("--tenant does not apply to html, which compares tenants")
    if not args.force and os.path.lexists(output):
        raise CotenantError(f"{output} exists; --force replaces it")
    if not os.path.isdir(output.absolute().parent):
        raise UsageError(
            f"there is no directory {output.parent}; make it, or name another --output"
        )
    with Session(args.store, **window(args)) as session, _progress(args.format, session):
        try:
            rows = export(session, args.format, output, args.table, raw=args.raw)
            standing = _standing(session, args.format, args.table)
        except OSError as error:
            why = error.strerror or error
            raise CotenantError(f"cannot write {output}: {why}; name another --output") from error
    if args.format == "html":
        print(f"{text.count(rows)} finding{'s' * (rows != 1)} to {output}")
    elif rows:
        print(f"{text.count(rows)} rows to {output}")
    else:
        print(f"nothing was recorded in this window; {output} has no rows")
    for line in text.incompleteness(standing):
        print(line, file=sys.stderr)
    return 0


def _progress(kind: str, session: Session) -> AbstractContextManager[None]:
    """Of a report, how far it is; other formats count their rows."""
    return working(session) if kind == "html" else nullcontext()


def _standing(session: Session, kind: str, tables: list[str] | None) -> Standing:
    """How complete the tables are that were written, or that a report is made from."""
    if kind == "html":
        return session.standing(LOOKED_AT)
    if kind == "perfetto":
        # Work on a GPU is drawn by spans, wherever they come from.
        return session.standing({"spans", *(source.table for source in SOURCES)})
    return session.standing(tables or TABLES)
