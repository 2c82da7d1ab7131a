"""One question in a process of its own: its options, and what it took as JSON."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def parsed(
    parser: argparse.ArgumentParser, ask: Callable[[argparse.Namespace], Any]
) -> argparse.Namespace:
    """The options; a script that is told to ask only one question prints the answer and ends."""
    parser.add_argument("--ask", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(ask(args)))
        raise SystemExit
    return args


def asked(script: str, store: Path, name: str, *more: str) -> dict[str, Any]:
    """What the script prints of this question; the last line of its error if it fails."""
    words = [sys.executable, script, "--ask", name, "--store", str(store), *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found
