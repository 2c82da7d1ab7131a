"""Every command as a list of its words and options: for the help, completion and the man page."""

import argparse
import importlib
from dataclasses import dataclass

from cotenant.views.cli import VERBS


@dataclass(frozen=True, slots=True)
class Option:
    """An option or argument."""

    names: tuple[str, ...]  # Empty for an argument that stands by itself.
    value: str  # What it takes; empty for a flag.
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A verb; or one of its actions, as `sim run`."""

    name: str
    help: str
    options: tuple[Option, ...]
    examples: str = ""


def commands() -> list[Command]:
    """All of them, in the order of the help."""
    found = []
    for verb in VERBS:
        module = importlib.import_module(f"cotenant.views.cli.{verb}")
        parser = argparse.ArgumentParser(add_help=False)
        module.add_arguments(parser)
        found.append(Command(verb, module.HELP, tuple(_options(parser)), module.EXAMPLES))
    return found


def _options(parser: argparse.ArgumentParser) -> list[Option]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.append(Option((), str(action.metavar), tuple(action.choices), "what to do"))
            continue
        choices = tuple(map(str, action.choices or ()))
        value = str(action.metavar or "|".join(choices) or action.dest.upper())
        words = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
        takes = "" if action.nargs == 0 else value
        found.append(Option(tuple(action.option_strings), takes, choices, words))
    return found
