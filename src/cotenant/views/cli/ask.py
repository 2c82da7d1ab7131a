"""``cotenant ask``: run a named question on a store and print the answer."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from cotenant.errors import UsageError
from cotenant.query.engine.answer import Answer, Standing
from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import Question, find, questions
from cotenant.query.screens import against
from cotenant.query.screens.tenants import meant
from cotenant.views import text, units
from cotenant.views.cli import store_argument
from cotenant.views.cli.again import given
from cotenant.views.cli.each_node import add_each_node_arguments, each_node, each_node_asked
from cotenant.views.cli.follow import add_follow_argument, followed
from cotenant.views.cli.layout import add_layout_arguments, chosen_layout
from cotenant.views.cli.working import working
from cotenant.views.moments import interval
from cotenant.views.tables import Layout
from cotenant.views.window import add_window_arguments, window

HELP = "Run a named question on a store. Without a name, list the questions."
EXAMPLES = """
examples:
  cotenant ask                                 # list the questions
  cotenant ask top_kernels                     # what does each tenant spend its time in?
  cotenant ask top_kernels limit=5 --since 5m  # set a parameter; the last five minutes
  cotenant ask timeline --tenant ml/train      # one tenant
  cotenant ask interference --show-sql         # the SQL, to paste into `cotenant sql`
  cotenant ask compare_windows --store /tmp/today --against /tmp/yesterday
  cotenant ask slow_nodes --store s3://fleet --on spark://master:7077  # a task for each node
"""
TABLE_ROWS = 10_000
Meant = Callable[[str], frozenset[str]]  # The tenants that a name means.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="name of the question")
    parser.add_argument("settings", nargs="*", metavar="name=value", help="set a parameter")
    parser.add_argument("--show-sql", action="store_true", help="print the SQL before the answer")
    parser.add_argument("--json", action="store_true", help="print one object, exact numbers")
    parser.add_argument(
        "--against",
        metavar="DIR",
        help=f"compare with all of another store, as it was before; with {against.QUESTION} alone",
    )
    add_each_node_arguments(parser, "ask each node in a task of its own; the answer is the same")
    add_follow_argument(parser)
    add_layout_arguments(parser)
    add_window_arguments(parser)
    store_argument(parser)


_FLAGS = frozenset(
    {"--show-sql", "--json", "--each-node", "--follow", "--wide", "--vertical", "--utc"}
    | {"--help", "-h"}
)


def arranged(words: Sequence[str]) -> list[str]:
    """The question and its settings moved before the options, as argparse requires."""
    plain: list[str] = []
    options: list[str] = []
    waiting = False  # The option before needs a value.
    for word in words:
        if waiting or word.startswith("-"):
            waiting = not waiting and word not in _FLAGS and "=" not in word
            options.append(word)
        else:
            plain.append(word)
    return plain + options


def run(args: argparse.Namespace) -> int:
    """Print the answer, and on stderr what is missing from it."""
    if args.question is None:
        return _list(as_json=args.json)
    question = find(args.question)
    if args.follow and args.json:
        raise UsageError("--follow prints tables; do without --json")
    return followed(args, lambda: _answer(args, question))


def _answer(args: argparse.Namespace, question: Question) -> int:
    chosen = window(args)
    if question.about_others:
        chosen["tenant"] = None
    answered = _of_each if each_node_asked(args) else _of_session
    sql, answer, empty = answered(args, question, chosen)
    if args.json:
        print(text.as_json(_object(question, answer, args.tenant)))
    else:
        if args.show_sql:
            print(_sql_shown(args, chosen["tenant"], sql), end="\n\n")
        _print(question, answer, chosen_layout(args), empty=empty, tenant=args.tenant)
    for line in text.incompleteness(answer.standing):
        print(line, file=sys.stderr)
    return 0


def _sql(args: argparse.Namespace, question: Question, meant: Meant) -> str:
    """The question's SQL for the tenants that the options name."""
    about = args.tenant is not None and question.about_others
    tenants = meant(args.tenant) if about else None
    return question.render(question.named(args.settings, meant), tenants)


def _of_session(
    args: argparse.Namespace, question: Question, chosen: dict[str, Any]
) -> tuple[str, Answer, bool]:
    """The SQL, its answer, and whether there is nothing in the store."""
    sql = _sql(args, question, partial(meant, args.store, nodes=args.node))
    with Session(args.store, **chosen) as session, working(session):
        return sql, _asked(args, question, session, sql), not session.segments


def _of_each(
    args: argparse.Namespace, question: Question, chosen: dict[str, Any]
) -> tuple[str, Answer, bool]:
    """The same, from a task for each node."""
    if args.against is not None:
        raise UsageError("--against compares two stores; do without --each-node")
    with each_node(args, chosen) as fleet:
        sql = _sql(args, question, lambda text: fleet.meant(text)[1])
        narrowed = fleet if chosen["tenant"] is None else fleet.of(chosen["tenant"])
        answer = narrowed.ask(sql, question.cuts, rows=TABLE_ROWS)
    return sql, answer, not fleet.recorded


def _asked(args: argparse.Namespace, question: Question, session: Session, sql: str) -> Answer:
    if args.against is None:
        return session.ask(sql, rows=TABLE_ROWS)
    values = dict(setting.split("=", 1) for setting in args.settings)
    if question.name != against.QUESTION or values.keys() - {"limit"}:
        raise UsageError(f"--against goes with {against.QUESTION} and limit=N alone")
    limit = next(p for p in question.params if p.name == "limit")
    shown = int(limit.read(values.get("limit", limit.default)))
    with Session(args.against, tenant=args.tenant, nodes=args.node) as other:
        answer, before = against.compared(session, other, shown)
    for line in text.incompleteness(before.standing):
        print(f"{args.against}: {line}", file=sys.stderr)
    return answer


def _list(*, as_json: bool) -> int:
    known = questions().values()
    if as_json:
        listed = [
            {"name": q.name, "title": q.title, "question": q.question, "reading": q.reading}
            | {"params": [{"name": p.name, "type": p.type, "default": p.default, "doc": p.doc}
                          for p in q.params]}
            for q in known
        ]  # fmt: skip
        print(text.as_json(listed))
        return 0
    widest = max(len(q.name) for q in known)
    for q in known:
        print(f"{q.name:<{widest}}  {q.question}")
    return 0


def _sql_shown(args: argparse.Namespace, tenant: str | None, sql: str) -> str:
    """The SQL, below a `cotenant sql` command line whose options give the same answer."""
    options = given(args, tenant=tenant is not None)
    return f"-- cotenant sql {' '.join(options)}\n{sql}" if options else sql


def _object(question: Question, answer: Answer, tenant: str | None) -> dict[str, Any]:
    standing = answer.standing
    covered = standing.interval
    return {
        "question": question.name,
        "tenant": tenant,
        "from_ns": covered.start_ns if covered else None,
        "to_ns": covered.end_ns if covered else None,
        "complete": standing.complete if _counted(standing) else None,
        "losses": [
            {"family": loss.family, "seen": loss.seen, "lost": loss.lost, "shed": loss.shed}
            for loss in standing.losses
        ],
        "holes": [asdict(hole) for hole in standing.holes],
        "lacks": text.incompleteness(standing),
        "sql": answer.sql,
        "rows": [{name: text.plain(value) for name, value in row.items()} for row in answer.rows()],
    }


def _counted(standing: Standing) -> bool:
    return bool(standing.losses) or not standing.complete


def _print(
    question: Question, answer: Answer, layout: Layout, *, empty: bool, tenant: str | None
) -> None:
    if not answer.table.num_rows:
        print(_nothing(question, answer, empty=empty, tenant=tenant))
        return
    columns = [column.to_pylist() for column in answer.table.columns]
    print(*units.table(answer.table.column_names, columns, layout), sep="\n")
    print(text.summary(answer.table.num_rows, answer.standing, tenant))
    if answer.truncated:
        print(f"only the first {text.count(TABLE_ROWS)} rows; use --since or --tenant to see fewer")


def _nothing(question: Question, answer: Answer, *, empty: bool, tenant: str | None) -> str:
    """Why there are no rows."""
    if empty:
        return "nothing was recorded yet: the store is empty"
    who = tenant or "any tenant"
    if answer.interval is None:
        return f"{question.name}: no events of {who} were recorded in this window"
    return f"{question.title}: no rows for {who}, {interval(answer.interval)}"
