"""``cotenant doctor``: checks whether this host can be recorded."""

import argparse
import itertools
import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import CotenantError
from cotenant.views import text
from cotenant.views.cli import apply_debug, debug_argument, store_argument
from cotenant.views.moments import with_zone
from cotenant.views.tables import width_of_output

if TYPE_CHECKING:
    from cotenant.agent.doctor import Check

_INDENT = 36
_SHOWN_MAX = 23  # Libraries, and processes, of the last recording.

HELP = "Test each requirement of recording on this host; print what to do if one fails."
EXAMPLES = """
examples:
  sudo cotenant doctor
  sudo cotenant doctor --json          # for a program; exit code 3: cannot be recorded
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--json", action="store_true", help="print an array of objects")
    debug_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print each check as it finishes; 0 if this host can be recorded, else 3."""
    from cotenant.agent.doctor import examine

    apply_debug(args)
    checks: list[Check] = []
    for check in itertools.chain(examine(Path(args.store), _progress), _recorded(args.store)):
        checks.append(check)
        if not args.json:
            _print(check)
    capable = all(check.holds for check in checks if check.needed)
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        print("\nthis host can be recorded" if capable else "\nthis host cannot be recorded yet")
    return 0 if capable else 3


def _recorded(store: str) -> Iterator["Check"]:
    """Each library and process of the last recording in the store."""
    from cotenant.agent.doctor import Check
    from cotenant.query.engine.session import Session
    from cotenant.query.screens.last_recording import last_recording

    try:
        with Session(store) as session:
            last = last_recording(session)
    except CotenantError:
        return  # Nothing was recorded, or we may not read it.
    if last is None:
        return
    yield Check("last recording", True, f"began {with_zone(last.started_ns)}", needed=False)
    for library in last.libraries[:_SHOWN_MAX]:
        yield _library(library)
    for process in last.processes[:_SHOWN_MAX]:
        found = (
            f"launches: {process['runtime']} seen in the runtime, {process['matched']} of them "
            f"also in the driver, {process['driver_alone']} in the driver only"
        )
        missed = process["runtime"] - process["matched"]
        advice = f"{missed} launches were not seen in the driver: is its library probed?"
        yield Check(
            f"recorded process {process['pid']}", not missed, found, advice if missed else "", False
        )
    if last.kernel_cost:
        yield _kernel_cost(last.kernel_cost, last.left_to_totals)
    hidden = len(last.libraries[_SHOWN_MAX:]) + len(last.processes[_SHOWN_MAX:])
    if hidden:
        yield Check("others", True, f"{hidden} more in the table sessions", needed=False)


def _kernel_cost(cost: dict[str, Any], left: dict[str, Any]) -> "Check":
    """What programs on kernel events took, and what was left to totals for it."""
    from cotenant.agent.doctor import Check

    spent = [f"{name} {text.duration(one['spent_ns'])}" for name, one in cost["families"].items()]
    found = f"programs took {', '.join(spent) or 'nothing'}"
    found += f", at most {100 * cost['busiest_cpu_share']:.2f} % of a CPU"
    counted = [f"{number:,} {name} events" for name, number in left.get("over_budget", {}).items()]
    more = []
    if counted:
        more.append(f"counted in totals, of tenants without a GPU first: {', '.join(counted)}")
    if messages := left.get("unix_messages"):
        more.append(f"counted in totals, of all tenants: {messages:,} messages over Unix sockets")
    return Check("recorded kernel events", True, found, "", False, tuple(more))


def _library(library: dict[str, Any]) -> "Check":
    from cotenant.agent.doctor import Check
    from cotenant.agent.refusals import blindness, by_reason

    kinds = "/".join(library.get("kinds") or ["?"])
    found = f"{library['path']}: {library['attached']} attached"
    if library.get("stepped"):
        found += f", {library['stepped']} of them single-stepped"
    gap = library.get("gap_ns")
    found += ", no gap" if gap is None else f", gap of {text.duration(gap)}"
    advice = "" if gap is None else "it was in use before it was probed; calls may be missing"
    if library.get("blind"):
        advice = blindness(library["refused"])
    holds = bool(library["attached"]) and not library.get("blind")
    more = tuple(by_reason(library["refused"]))
    return Check(f"recorded {kinds}", holds, found, advice, False, more)


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[Ktrying {what} ...", end="\r", file=sys.stderr, flush=True)


def _print(check: "Check") -> None:
    mark = "ok" if check.holds else "NO" if check.needed else "--"
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    room = width_of_output() - _INDENT
    said = [text.cell(check.found), *map(text.cell, check.more), text.cell(check.advice)]
    lines = [line for part in said for line in textwrap.wrap(part, room)] or [""]
    print(f"{mark:3} {check.name:{_INDENT - 5}} {lines[0]}")
    for line in lines[1:]:
        print(f"{'':{_INDENT}}{line}")
