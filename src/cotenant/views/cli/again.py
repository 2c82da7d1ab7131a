"""Repeats a command's options, so that the next command reads the same store and window."""

import argparse

from cotenant.query.text.shell import option
from cotenant.views.cli import default_store


def given(args: argparse.Namespace, *, tenant: bool) -> list[str]:
    """``--store``, window, nodes and, if asked for, the tenant as given, quoted for a shell."""
    named = getattr(args, "named_store", args.store)
    store = named if named != default_store() else None
    values = {"--store": store, "--tenant": args.tenant if tenant else None}
    values |= {"--since": args.since, "--from": args.from_, "--to": args.to}
    nodes = [option("--node", name) for name in args.node]
    return [option(name, value) for name, value in values.items() if value] + nodes
