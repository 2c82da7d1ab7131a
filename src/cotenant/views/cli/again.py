"""The options of a command, for another one to see the same store and time."""

import argparse

from cotenant.query.text.shell import option
from cotenant.views.cli import default_store


def given(args: argparse.Namespace, *, tenant: bool) -> list[str]:
    """``--store`` and the window as they were given, ready for a shell; maybe the tenant too."""
    store = args.store if args.store != default_store() else None
    values = {"--store": store, "--tenant": args.tenant if tenant else None}
    values |= {"--since": args.since, "--from": args.from_, "--to": args.to}
    return [option(name, value) for name, value in values.items() if value]
