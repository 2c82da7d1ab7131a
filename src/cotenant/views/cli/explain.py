"""``cotenant explain``: findings, the costliest first."""

import argparse
import sys
import textwrap
from dataclasses import asdict, replace

from cotenant.query.engine.session import Session
from cotenant.query.findings.explain import Explanation, explain, with_the_whole
from cotenant.query.findings.finding import Finding
from cotenant.query.screens.tenants import meant
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.again import given
from cotenant.views.cli.each_node import add_each_node_arguments, each_node, each_node_asked
from cotenant.views.cli.layout import add_utc_argument
from cotenant.views.cli.working import working
from cotenant.views.found import cost, sure
from cotenant.views.moments import interval, show_utc
from cotenant.views.tables import width_of_output
from cotenant.views.window import add_window_arguments, window

HELP = "Find problems: each with its victim, its culprit and evidence, the costliest first."
EXAMPLES = """
examples:
  cotenant explain
  cotenant explain --since 5m
  cotenant explain --tenant ml/train --json
  cotenant explain --each-node                # Spark on this machine, a task for each node
"""
_INDENT = "   "
_NAMED = 3  # Nodes.
_PAIRS = 4  # With too few samples.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("--json", action="store_true", help="print one object, exact numbers")
    add_each_node_arguments(parser, "look at each node in a task of its own; it finds the same")
    add_window_arguments(parser)
    add_utc_argument(parser)
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the findings, and how complete their data is."""
    show_utc(args.utc)
    found, empty = _of_each(args) if each_node_asked(args) else _of_session(args)
    found = _with_options(found, given(args, tenant=False))
    if args.json:
        print(text.as_json(_object(found, args.tenant)))
    else:
        print(*_lines(found, args.tenant, empty=empty), sep="\n")
    for line in text.incompleteness(found.standing):
        print(line, file=sys.stderr)
    return 0


def _of_session(args: argparse.Namespace) -> tuple[Explanation, bool]:
    """What is found, and whether there is nothing in the store."""
    tenants = meant(args.store, args.tenant, args.node) if args.tenant is not None else None
    chosen = window(args) | {"tenant": None}
    with Session(args.store, **chosen) as session, working(session):
        found, empty = explain(session, tenants), not session.segments
    if not found.unsampled or (args.since, args.from_, args.to) == (None, None, None):
        return found, empty
    everything = chosen | {"since_ns": None, "from_ns": None, "to_ns": None}
    with Session(args.store, **everything) as session, working(session):
        return with_the_whole(found, session), empty


def _of_each(args: argparse.Namespace) -> tuple[Explanation, bool]:
    """The same, from a task for each node."""
    with each_node(args, window(args)) as fleet:
        tenants = fleet.meant(args.tenant)[1] if args.tenant is not None else None
        return fleet.explain(tenants), not fleet.recorded


def _with_options(found: Explanation, options: list[str]) -> Explanation:
    """The findings, with the store and window added to each one's next command."""
    findings = (replace(f, next=" ".join([f.next, *options])) for f in found.findings)
    maybes = (replace(m, next=" ".join([m.next, *options])) for m in found.maybes)
    return replace(found, findings=tuple(findings), maybes=tuple(maybes))


def _object(found: Explanation, tenant: str | None) -> dict[str, object]:
    interval = found.interval
    return {
        "tenant": tenant,
        "from_ns": interval.start_ns if interval else None,
        "to_ns": interval.end_ns if interval else None,
        "complete": found.standing.complete if _counted(found) else None,
        "lacks": text.incompleteness(found.standing),
        "findings": [finding.as_dict() for finding in found.findings],
        "maybes": [asdict(maybe) for maybe in found.maybes],
        "unsampled": [asdict(pair) for pair in found.unsampled],
    }


def _lines(found: Explanation, tenant: str | None, *, empty: bool) -> list[str]:
    if empty:
        return ["nothing was recorded yet: the store is empty"]
    if found.interval is None or not found.tenants:
        return ["nothing was recorded in this window"]
    lines = []
    for number, finding in enumerate(found.findings, 1):
        lines += [*_paragraph(number, finding), ""]
    if not found.findings and not found.unsampled:
        who = tenant or f"{text.count(found.tenants)} tenant" + "s" * (found.tenants != 1)
        lines.append(f"nothing stands out for {who}")
    for pair in found.unsampled[:_PAIRS]:
        whole = f"; in the whole recording: {pair.whole}" if pair.whole else ""
        where = " in this window" if pair.whole else ""
        words = pair.title.replace("too few samples", f"too few samples{where}", 1) + whole
        lines += _wrapped(words, "", _INDENT)
    if len(found.unsampled) > _PAIRS:
        lines.append(f"too few samples for {len(found.unsampled) - _PAIRS} more pairs")
    for maybe in found.maybes:
        lines += [*_wrapped(f"maybe: {maybe.title}", "", _INDENT), f"{_INDENT}next: {maybe.next}"]
    last = f"({interval(found.interval)}; {_standing(found)})"
    return lines + textwrap.wrap(last, width_of_output(), subsequent_indent=" ")


def _counted(found: Explanation) -> bool:
    return bool(found.standing.losses) or not found.standing.complete


def _standing(found: Explanation) -> str:
    parts = []
    if _counted(found):
        parts.append("complete" if found.standing.complete else "incomplete")
    if found.unknown:
        parts.append(f"no rows of {', '.join(found.unknown)}")
    return "; ".join(parts) or "no losses were counted"


def _paragraph(number: int, finding: Finding) -> list[str]:
    facts = (
        f"victim {finding.victim}; culprit {finding.culprit or 'no other tenant'}; "
        f"{_where(finding)}costs it "
        f"{cost(finding)}; confidence {sure(finding)} ({finding.confidence:.2f})"
    )
    lines = _wrapped(f"{number}. {finding.title}", "", _INDENT)
    for words in (facts, *finding.evidence):
        lines += _wrapped(words, _INDENT, _INDENT + "  ")
    # A command that is broken into lines cannot be pasted.
    return [*lines, f"{_INDENT}next: {text.cell(finding.next)}"]


def _where(finding: Finding) -> str:
    """The nodes, where there are several and the tenant's name does not tell."""
    if not finding.nodes or finding.victim.endswith(f"@{finding.nodes[0]}"):
        return ""
    more = f" and {len(finding.nodes) - _NAMED} more nodes" if len(finding.nodes) > _NAMED else ""
    return f"on {', '.join(finding.nodes[:_NAMED])}{more}; "


def _wrapped(words: str, first: str, others: str) -> list[str]:
    """Lines that fit; a name with hyphens stays whole."""
    return textwrap.wrap(
        text.cell(words),
        width_of_output(),
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
    )
