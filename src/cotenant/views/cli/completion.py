"""``cotenant completion``: what a shell needs to complete commands, options and questions."""

import argparse
from collections.abc import Callable
from typing import Final

from cotenant.query.questions.loader import questions
from cotenant.query.text.shell import word as quoted_word
from cotenant.views.cli import VERBS
from cotenant.views.cli.commands import Command, commands

HELP = "Print a script that completes commands, options and questions in your shell."
EXAMPLES = """
examples:
  cotenant completion bash > /etc/bash_completion.d/cotenant
  cotenant completion zsh > ~/.zfunc/_cotenant      # with ~/.zfunc in fpath
  cotenant completion fish > ~/.config/fish/completions/cotenant.fish
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument("shell", choices=tuple(_SHELLS), metavar="SHELL", help=", ".join(_SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(_SHELLS[args.shell](commands()), end="")
    return 0


def _flags(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names] + ["--help"]


def _words(command: Command) -> list[str]:
    """What may stand by itself after the verb."""
    if command.name == "ask":
        return list(questions())
    if command.name == "help":
        return list(VERBS)
    return [word for option in command.options if not option.names for word in option.choices]


def _bash(found: list[Command]) -> str:
    cases = []
    for command in found:
        values = "".join(
            f"      {'|'.join(o.names)}) words={quoted_word(' '.join(o.choices))} ;;\n"
            for o in command.options
            if o.names and o.choices
        )
        files = "|".join(
            name for o in command.options if o.value in ("DIR", "PATH", "FILE") for name in o.names
        )
        files = f'      {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;\n' if files else ""
        every = quoted_word(" ".join([*_words(command), *_flags(command)]))
        cases.append(
            f"    {command.name})\n      words={every}\n      case $before in\n{values}{files}"
            "      esac ;;\n"
        )
    return f"""\
# Completion of cotenant for bash; `cotenant completion bash` prints it.
_cotenant() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W {quoted_word(" ".join([*VERBS, "--help", "--version"]))} -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{"".join(cases)}  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -F _cotenant cotenant
"""


def _zsh(found: list[Command]) -> str:
    verbs = "\n".join(f"    {quoted_word(f'{verb}:{line}')}" for verb, line in VERBS.items())
    cases = []
    for command in found:
        specs = [_zsh_spec(o.names, o.value, o.choices, o.help) for o in command.options if o.names]
        words = " ".join(_words(command))
        specs.append(quoted_word(f"*:word:({words})"))
        cases.append(f"    {command.name}) _arguments {' '.join(specs)} ;;\n")
    return f"""\
#compdef cotenant
# Completion of cotenant for zsh; `cotenant completion zsh` prints it.
_cotenant() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if ((CURRENT == 2)); then
    _describe command verbs
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  case $verb in
{"".join(cases)}  esac
}}
_cotenant "$@"
"""


def _zsh_spec(names: tuple[str, ...], value: str, choices: tuple[str, ...], words: str) -> str:
    told = words.replace("[", "(").replace("]", ")").replace(":", " ")
    takes = ""
    if value:
        takes = f":{value}:" + (f"({' '.join(choices)})" if choices else "_files")
    return " ".join(quoted_word(f"{name}[{told}]{takes}") for name in names)


def _fish(found: list[Command]) -> str:
    lines = ["# Completion of cotenant for fish; `cotenant completion fish` prints it."]
    first = "complete -c cotenant -f -n __fish_use_subcommand"
    lines += [f"{first} -a {verb} -d {quoted_word(line)}" for verb, line in VERBS.items()]
    for command in found:
        here = f"complete -c cotenant -n '__fish_seen_subcommand_from {command.name}'"
        if words := _words(command):
            lines.append(f"{here} -f -a {quoted_word(' '.join(words))}")
        for option in command.options:
            takes = f" -x -a {quoted_word(' '.join(option.choices))}" if option.choices else ""
            takes = takes or (" -r" if option.value else "")
            for name in option.names:
                kind = "-l" if name.startswith("--") else "-s"
                told = quoted_word(option.help)
                lines.append(f"{here} {kind} {name.lstrip('-')}{takes} -d {told}")
    return "\n".join(lines) + "\n"


_SHELLS: Final[dict[str, Callable[[list[Command]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
