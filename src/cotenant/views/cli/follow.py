"""``--follow``: the answer again and again, while a recording goes on."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cotenant.query.text.time_syntax import period_ns
from cotenant.store.nodes import Nodes

_CLEAR: Final = "\x1b[H\x1b[J"
_LOOK_S: Final = 0.25


def add_follow_argument(parser: argparse.ArgumentParser) -> None:
    """``--follow`` and ``--every``."""
    parser.add_argument(
        "--follow", action="store_true", help="answer again as rows come, until Ctrl-C"
    )
    parser.add_argument(
        "--every", default="2s", metavar="TIME", help="with --follow: how often (default: 2s)"
    )


def followed(args: argparse.Namespace, answer: Callable[[], int]) -> int:
    """Answer once; with ``--follow``, again whenever the store has changed."""
    every_s = period_ns(args.every) / 1e9
    if not args.follow:
        return answer()
    nodes = Nodes(Path(args.store), args.node)
    while True:
        before, began = nodes.stamp(), time.monotonic()
        if sys.stdout.isatty():
            print(_CLEAR, end="")
        answer()
        print(flush=True)
        time.sleep(max(0, began + every_s - time.monotonic()))
        while nodes.stamp() == before:
            time.sleep(_LOOK_S)
