"""``cotenant doctor``: can this host be recorded, and if not, what to do."""

import argparse
import json
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

from cotenant.views import text
from cotenant.views.cli import store_argument

_INDENT = 36

HELP = "Try every condition that recording needs, and say what to do where one fails."
EXAMPLES = """
examples:
  sudo cotenant doctor
  sudo cotenant doctor --json          # for a program; exit code 3: not recordable
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--json", action="store_true", help="an array of objects")


def run(args: argparse.Namespace) -> int:
    """Print each check as it is done; 0 if this host can be recorded, else 3."""
    from cotenant.agent.doctor import Check, examine

    checks: list[Check] = []
    for check in examine(Path(args.store), _progress):
        checks.append(check)
        if not args.json:
            _print(check.name, check.found, check.advice, check.holds, check.needed)
    capable = all(check.holds for check in checks if check.needed)
    if args.json:
        print(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        print("\nthis host can be recorded" if capable else "\nthis host cannot be recorded yet")
    return 0 if capable else 3


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[Ktrying {what} ...", end="\r", file=sys.stderr, flush=True)


def _print(name: str, found: str, advice: str, holds: bool, needed: bool) -> None:
    mark = "ok" if holds else "NO" if needed else "--"
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    room = text.width_of_output() - _INDENT
    lines = [*textwrap.wrap(found, room), *textwrap.wrap(advice, room)] or [""]
    print(f"{mark:3} {name:{_INDENT - 5}} {lines[0]}")
    for line in lines[1:]:
        print(f"{'':{_INDENT}}{line}")
