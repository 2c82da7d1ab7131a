"""``cotenant sql``: runs read-only SQL on a store and prints the answer."""

import argparse
import sys
from dataclasses import replace

from cotenant.errors import UsageError
from cotenant.query.engine.answer import Answer, Standing
from cotenant.query.engine.session import Session
from cotenant.views import rows, tables, text
from cotenant.views.cli import store_argument
from cotenant.views.cli.each_node import add_each_node_arguments, each_node, each_node_asked
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
  cotenant sql --each-node --on here "SELECT count(*) AS calls FROM cuda_events"
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
    add_each_node_arguments(
        parser, "run it on each node by itself, in a task of its own; rows come with their node"
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
    answered = _of_each if each_node_asked(args) else _of_session
    standing, empty = answered(args, question)
    for line in text.incompleteness(standing):
        print(line, file=sys.stderr)
    if empty:
        print(f"the store {args.store} is empty: nothing was recorded yet", file=sys.stderr)
    return 0


def _of_session(args: argparse.Namespace, question: str) -> tuple[Standing, bool]:
    """Print the answer; its standing, and whether there is nothing in the store."""
    with Session(args.store, **window(args)) as session, working(session):
        if args.format == "table":
            standing = _print_table(session.ask(question, rows=TABLE_ROWS), chosen_layout(args))
        else:
            with session.stream(question) as (batches, standing):
                rows.write(batches, args.format, sys.stdout, raw=args.raw)
        return standing, not session.segments


def _of_each(args: argparse.Namespace, question: str) -> tuple[Standing, bool]:
    """The same, from a task for each node."""
    chosen = window(args)
    with each_node(args, chosen) as fleet:
        narrowed = fleet if chosen["tenant"] is None else fleet.of(chosen["tenant"])
        answer = narrowed.each(question)
    if args.format == "table":
        shown = replace(answer, table=answer.table.slice(0, TABLE_ROWS))
        shown = replace(shown, truncated=answer.table.num_rows > TABLE_ROWS)
        _print_table(shown, chosen_layout(args))
    else:
        rows.write(answer.table.to_reader(), args.format, sys.stdout, raw=args.raw)
    return answer.standing, not fleet.recorded


def _question(words: str) -> str:
    if words != "-":
        return words
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError("the SQL on stdin is not UTF-8; convert it") from error


def _print_table(answer: Answer, layout: Layout) -> Standing:
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
