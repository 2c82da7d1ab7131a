"""``--each-node`` and ``--on``: each node is asked in a task of its own, here or on Spark."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import UsageError
from cotenant.fleet import DEFAULT
from cotenant.views.status_line import show

if TYPE_CHECKING:
    from cotenant.fleet.asking import FleetSession


def add_each_node_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """The two options; ``what`` says what the first does."""
    parser.add_argument("--each-node", action="store_true", help=what)
    parser.add_argument(
        "--on",
        metavar="WHERE",
        help="where the tasks of --each-node run: a Spark master such as spark://HOST:7077, or "
        f"`here`, one after the other without Spark (default: {DEFAULT}, Spark on this machine)",
    )


def each_node_asked(args: argparse.Namespace) -> bool:
    """Whether the command is to ask each node by itself."""
    wanted = getattr(args, "each_node", False) or getattr(args, "on", None) is not None
    if wanted and getattr(args, "follow", False):
        raise UsageError("--each-node answers once; do without --follow")
    return wanted


@contextmanager
def each_node(args: argparse.Namespace, window: Mapping[str, Any]) -> Iterator["FleetSession"]:
    """The nodes that the options choose, to be asked one by one."""
    from cotenant.fleet.asking import open_fleet
    from cotenant.fleet.runner import on
    from cotenant.views.cli.fetched import most_bytes

    named = getattr(args, "named_store", None) or str(Path(args.store).absolute())
    with on(args.on or DEFAULT) as runner:
        try:
            yield open_fleet(
                Path(args.store),
                named,
                runner,
                _told,
                window=_from_now(window),
                cache_bytes=most_bytes(),
            )
        finally:
            _clear()


def _from_now(window: Mapping[str, Any]) -> dict[str, Any]:
    """The window with a start that is the same for all tasks."""
    from cotenant.query.engine.window import start_of

    start_ns = start_of(window["from_ns"], window["to_ns"], window["since_ns"])
    return dict(window) | {"from_ns": start_ns}


def _told(done: int, of: int) -> None:
    if sys.stderr.isatty():
        show(f"{done} of {of} tasks done; Ctrl-C stops")


def _clear() -> None:
    if sys.stderr.isatty():
        show()
