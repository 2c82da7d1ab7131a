"""``cotenant health``: says whether a recorder writes to this store, for probes of a container.

It answers in a fraction of a second, because it opens no table: a recorder replaces its manifest at
every seal, whether its tenants do anything or not.
"""

import argparse
import os
import time
from pathlib import Path

from cotenant.errors import StoreError
from cotenant.query.text.time_syntax import duration_ns
from cotenant.views.cli import store_argument

HELP = "Say whether the store is being written to; exit code 0 if so. For probes of a container."
EXAMPLES = """
examples:
  cotenant health                       # written to within the last 30 s
  cotenant health --within 5m
"""
_MANIFESTS = "manifest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument(
        "--within",
        default="30s",
        metavar="TIME",
        help="how long ago the last write may be (default: 30s)",
    )


def run(args: argparse.Namespace) -> int:
    """One line; an error if nobody writes."""
    within_ns = duration_ns(args.within)
    age_ns = max(0, time.time_ns() - last_write_ns(Path(args.store)))
    age = f"{age_ns / 1e9:.1f} s ago"
    if age_ns > within_ns:
        raise StoreError(
            f"{args.store} was last written to {age}; look at what `cotenant record` says"
        )
    print(f"{args.store} was written to {age}")
    return 0


def last_write_ns(store: Path) -> int:
    """When a recorder last replaced its manifest."""
    try:
        with os.scandir(store / _MANIFESTS) as entries:
            times = [e.stat().st_mtime_ns for e in entries if e.name.endswith(".json")]
    except OSError as error:
        raise StoreError(
            f"cannot read {store / _MANIFESTS}: {error.strerror}; does `cotenant record` run?"
        ) from error
    if not times:
        raise StoreError(f"nobody has written to {store} yet; start `cotenant record`")
    return max(times)
