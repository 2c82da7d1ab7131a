"""``cotenant sql``: runs read-only SQL on a store and prints the answer."""

import argparse
import sys

from cotenant.errors import UsageError
from cotenant.query.engine.answer import Standing
from cotenant.query.engine.session import Session
from cotenant.views import rows, tables, text
from cotenant.views.cli import store_argument
from cotenant.views.cli.follow import add_follow_argument, followed
from cotenant.views.cli.layout import add_layout_arguments, chosen_layout
from cotenant.views.cli.working import working
from cotenant.views.tables import Layout
from cotenant.views.window import add_window_arguments, window

HELP = "Run read-only SQL on a store, also while it is being recorded. Needs no privilege."
EXAMPLES = """
examples:
  cotenant sql "SHOW TABLES"
  cotenant sql "DESCRIBE cuda_events"
  cotenant sql "SELECT tenant, count(*) FROM cuda_events JOIN containers USING (cgroup_id)
                GROUP BY tenant"
  cotenant sql --since 5m --format json "FROM cuda_events"
  cotenant sql --format parquet "FROM nccl_events" > nccl.parquet
  cotenant sql - < question.sql
"""
TABLE_ROWS = 10_000  # More than anyone reads; the other formats have no limit.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("sql", metavar="SQL", help="one read-only statement; - reads it from stdin")
    parser.add_argument(
        "--format", choices=rows.FORMATS, default="table", help="output format (default: table)"
    )
    parser.add_argument(
        "--raw", action="store_true", help="keep tenants' text as it is, in csv and json"
    )
    add_follow_argument(parser)
    add_layout_arguments(parser)
    add_window_arguments(parser)
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the answer, and on stderr what is missing from it."""
    if args.raw and args.format not in rows.RAW:
        raise UsageError("--raw applies to --format csv and json")
    question = _question(args.sql)
    if args.follow and args.format != "table":
        raise UsageError("--follow applies to --format table")
    return followed(args, lambda: _answer(args, question))


def _answer(args: argparse.Namespace, question: str) -> int:
    with Session(args.store, **window(args)) as session, working(session):
        if args.format == "table":
            standing = _print_table(session, question, chosen_layout(args))
        else:
            with session.stream(question) as (batches, standing):
                rows.write(batches, args.format, sys.stdout, raw=args.raw)
        empty = not session.segments
    for line in text.incompleteness(standing):
        print(line, file=sys.stderr)
    if empty:
        print(f"the store {args.store} is empty: nothing was recorded yet", file=sys.stderr)
    return 0


def _question(words: str) -> str:
    if words != "-":
        return words
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError("the SQL on stdin is not UTF-8; convert it") from error


def _print_table(session: Session, question: str, layout: Layout) -> Standing:
    answer = session.ask(question, rows=TABLE_ROWS)
    columns = [column.to_pylist() for column in answer.table.columns]
    if answer.table.column_names == ["explain_key", "explain_value"]:
        print(*map(text.lines, columns[1]), sep="\n")
        return answer.standing
    names = rows.unique(answer.table.column_names)
    lines = tables.table(names, zip(*columns, strict=True), layout)
    print(*lines, sep="\n")
    print(text.summary(answer.table.num_rows, answer.standing))
    if answer.truncated:
        print(
            f"only the first {text.count(TABLE_ROWS)} rows; --format csv prints all",
            file=sys.stderr,
        )
    return answer.standing
