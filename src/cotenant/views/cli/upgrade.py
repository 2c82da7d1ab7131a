"""``cotenant upgrade``: store what questions derive from the rows of an old store each time."""

import argparse
from pathlib import Path

from cotenant.query.upgrade import to_upgrade, upgrade
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.moments import with_zone

HELP = (
    "Derive the spans of recordings that stored none, once, and store them; questions about GPU "
    "time are quick from then on. It may be stopped and started again."
)
EXAMPLES = """
examples:
  sudo cotenant upgrade                          # the host's store, while nothing records into it
  cotenant upgrade --store /tmp/copy
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Convert what is left, and say so."""
    store = Path(args.store)
    left = len(to_upgrade(store))
    if not left:
        print("the spans of every recording are stored; nothing to do")
        return 0
    for done, one in enumerate(upgrade(store), start=1):
        what = f"recording of {with_zone(one.started_ns)} on {text.cell(one.node)}"
        print(f"{done} of {left}: {what}: {text.count(one.spans)} spans", flush=True)
    return 0
