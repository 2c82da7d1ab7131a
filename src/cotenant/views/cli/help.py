"""``cotenant help``: the list of commands, or one command's options and examples."""

import argparse

from cotenant.views.cli import VERBS, main, parser_of, unknown_verb

HELP = "Show what there is; with a command, its options and examples."
EXAMPLES = """
examples:
  cotenant help
  cotenant help ask
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("verb_of", nargs="?", metavar="VERB", help="show the help of this command")


def run(args: argparse.Namespace) -> int:
    """Print the help."""
    if args.verb_of is None:
        parser_of(None).print_help()
        return 0
    if args.verb_of not in VERBS:
        raise unknown_verb(args.verb_of)
    return main([args.verb_of, "--help"])
