"""``cotenant tenants``: lists tenants, with their events."""

import argparse
import sys
from typing import Any

from cotenant.query.engine.session import Session
from cotenant.query.screens.tenants import silent_cgroups, tenants
from cotenant.schema.families import FAMILIES
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.layout import add_layout_arguments, chosen_layout
from cotenant.views.cli.working import working
from cotenant.views.moments import moment, zone
from cotenant.views.tables import Layout, table
from cotenant.views.window import add_window_arguments, window

HELP = "List every tenant with events, and its container, pod, unit or job."
EXAMPLES = """
examples:
  cotenant tenants
  cotenant tenants --since 5m
  cotenant tenants --all --json
"""
_WHO = frozenset({"tenant", "container"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("--all", action="store_true", help="also list cgroups without events")
    parser.add_argument(
        "--json", action="store_true", help="print an array of objects, exact numbers"
    )
    add_layout_arguments(parser)
    add_window_arguments(parser)
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tenants, and on stderr what is missing from the counts."""
    with Session(args.store, **window(args)) as session, working(session):
        answer = tenants(session, everyone=args.all)
        found = answer.rows()
        silent = silent_cgroups(session, len(found))
        empty = not session.segments
    if args.json:
        several = _several(found)
        print(text.as_json([_plain(row, several=several) for row in found]))
    elif found:
        print(*_lines(found, chosen_layout(args), ids=args.wide or args.vertical), sep="\n")
        print(text.summary(len(found), answer.standing))
    if not args.json and not found:
        print("nothing was recorded yet" if empty else "no tenant has events in this window")
    if silent and not args.json:
        cgroups = "cgroup" if silent == 1 else "cgroups"
        print(f"{text.count(silent)} {cgroups} without events; --all lists them", file=sys.stderr)
    for line in text.incompleteness(answer.standing):
        print(line, file=sys.stderr)
    return 0


def _several(found: list[dict[str, Any]]) -> bool:
    """Whether more than one node is in sight."""
    return len({row["node"] for row in found}) > 1


def _plain(row: dict[str, Any], *, several: bool) -> dict[str, Any]:
    counts = {family: row.pop(family) for family in FAMILIES}
    node = {"node": row.pop("node")}
    return {**row, **(node if several else {}), "events": counts}


def _lines(found: list[dict[str, Any]], layout: Layout, *, ids: bool) -> list[str]:
    active = [family for family in FAMILIES if any(row[family] for row in found)]
    latest = max((row["last_seen_ns"] or 0 for row in found), default=0)
    several = _several(found)
    names = ["tenant", "container", *active, "first", f"last ({zone(latest)})", "where"]
    names += ["node"] * several + ["cgroup_id"] * ids
    rows = [
        [
            row["tenant"],
            _short(row["container_id"]),
            *(row[family] for family in active),
            _when(row["first_seen_ns"], latest),
            _when(row["last_seen_ns"], latest),
            _where(row),
            *([row["node"]] if several else []),
            *([row["cgroup_id"]] if ids else []),
        ]
        for row in found
    ]
    times = len(names) - several - ids - 1
    return table(names, rows, layout, _WHO, frozenset(names[times - 2 : times]))


def _short(container_id: str) -> str:
    """An id cut to the twelve characters that container tools show; a name stays whole."""
    is_id = len(container_id) == 64 and all(c in "0123456789abcdef" for c in container_id)
    return container_id[:12] if is_id else container_id


def _when(ns: int | None, latest: int) -> str | None:
    """The time of day; with the date if that is not the day of the latest event."""
    if ns is None:
        return None
    shown = moment(ns)
    return shown[11:] if shown[:10] == moment(latest)[:10] else shown


def _where(row: dict[str, Any]) -> str | None:
    """Pod, job or unit; with its name if the tenant is not named after it."""
    pod = f"{row['namespace']}/{row['pod']}" if row["namespace"] else row["pod"]
    for kind, name in (("pod", pod), ("job", row["slurm_job"]), ("unit", row["unit"])):
        if name:
            return kind if row["tenant"].endswith(name) else f"{kind} {name}"
    return None
