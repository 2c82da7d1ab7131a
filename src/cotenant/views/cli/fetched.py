"""``--store s3://…``: what a reader needs is fetched before it reads, and read like any store."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from cotenant.errors import UsageError
from cotenant.views.cli.amounts import size_bytes
from cotenant.views.cli.each_node import each_node_asked
from cotenant.views.status_line import show

S3: Final = "s3://"
READERS: Final = frozenset({"tenants", "sql", "ask", "explain", "export", "top", "serve", "pull"})


@contextmanager
def fetched(args: argparse.Namespace) -> Iterator[None]:
    """Have ``args`` name directories, with what the far stores of this command have for it."""
    with ExitStack() as stack:
        for name in ("store", "against"):
            where = getattr(args, name, None)
            if where is not None and where.startswith(S3):
                _check(args)
                # A store to compare with is taken whole.
                chosen = args if name == "store" else None
                setattr(args, f"named_{name}", where)
                setattr(args, name, stack.enter_context(_local(where, chosen)))
        yield


def _check(args: argparse.Namespace) -> None:
    if args.verb not in READERS:
        raise UsageError(f"{args.verb} needs a directory as its --store; {S3} is for readers")
    if getattr(args, "follow", False):
        raise UsageError(f"--follow needs a directory; what is in {S3} comes by the window")


@contextmanager
def _local(where: str, args: argparse.Namespace | None) -> Iterator[str]:
    from cotenant.remote.fetch import far_store

    far = far_store(where, most_bytes(), getattr(args, "node", ()))
    with far.view() as view:
        if args is None or not each_node_asked(args):
            far.fill(view, _needed(args, view), _told)
        yield str(view)


def _needed(args: argparse.Namespace | None, view: Path) -> Callable[[Any], bool]:
    """Which objects are to be fetched."""
    if args is not None and args.verb == "pull":
        from cotenant.views.cli.pull import needs

        return partial(needs, args)
    from cotenant.query.engine.needs import needed

    return partial(needed, window=_window(args, view))


def _window(args: argparse.Namespace | None, view: Path) -> Any:
    """The time that is asked about; the manifests tell when the newest recording ended."""
    from cotenant.query.engine.window import Window, start_of
    from cotenant.views.window import window

    if args is None or not hasattr(args, "since"):
        return Window()
    chosen = window(argparse.Namespace(**(vars(args) | {"store": str(view)})))
    start_ns = start_of(chosen["from_ns"], chosen["to_ns"], chosen["since_ns"])
    return Window(start_ns, chosen["to_ns"])


def _told(done: int, of: int) -> None:
    if sys.stderr.isatty():
        show("" if done + 1 == of else f"fetching {done + 1} of {of} objects")


def most_bytes() -> int:
    """The bound of the cache."""
    from cotenant.remote.cache import DEFAULT_BYTES

    given = os.environ.get("COTENANT_CACHE_BYTES")
    try:
        return size_bytes(given) if given else DEFAULT_BYTES
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"COTENANT_CACHE_BYTES: {error}") from error
