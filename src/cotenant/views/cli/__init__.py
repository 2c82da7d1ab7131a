"""The `cotenant` command: one module per verb.

A verb is a module of this package with ``HELP``, ``EXAMPLES``, ``add_arguments(parser)`` and
``run(args)``, and ``arranged(words)`` if its words may stand in another order than argparse wants.
It is imported only when asked for, so that `cotenant sql` never waits for what only
`cotenant record` needs.
"""

import argparse
import importlib
import os
import sys
from types import ModuleType
from typing import Final, NoReturn

from cotenant import __version__
from cotenant.errors import CotenantError, UsageError

DEFAULT_STORE: Final = "/var/lib/cotenant"

# The verb, and its one line in the list.
VERBS: Final = {
    "record": "record this host until told to stop",
    "demo": "three simulated tenants, recorded for real",
    "doctor": "can this host be recorded? what to do if not",
    "tenants": "who is here, and what each did",
    "sql": "put read-only SQL to a store",
    "ask": "put a named question to a store",
    "explain": "what is wrong, for whom, and because of whom",
    "export": "take what was recorded elsewhere",
    "top": "what each tenant does, live in the terminal",
    "serve": "the page with the tenants' timeline, on loopback",
    "sim": "the stand-in GPU: where it is, and workloads on it",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where it says what is right."""

    def error(self, message: str) -> NoReturn:
        """Leave with the exit code of wrong usage."""
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _directory(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a directory")
    return text


def default_store() -> str:
    """The store where none is named."""
    return _store_of_environment() or DEFAULT_STORE


def _store_of_environment() -> str | None:
    return os.environ.get("COTENANT_STORE") or None


def debug_argument(parser: argparse.ArgumentParser) -> None:
    """The ``--debug`` option of verbs that load programs."""
    parser.add_argument(
        "--debug",
        action="store_true",
        help="print all that the kernel says of a program that it refuses",
    )


def apply_debug(args: argparse.Namespace) -> None:
    """Let whoever loads programs know, the attaching process too."""
    if args.debug:
        os.environ["COTENANT_DEBUG"] = "1"


def store_argument(parser: argparse.ArgumentParser, otherwise: str | None = None) -> None:
    """The ``--store`` option that every verb shares; None for one that makes its own otherwise."""
    parser.add_argument(
        "--store",
        type=_directory,
        default=_store_of_environment() if otherwise else default_store(),
        metavar="DIR",
        help="where the recording lies "
        f"(default: $COTENANT_STORE, else {otherwise or DEFAULT_STORE})",
    )


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"cotenant.views.cli.{verb}")


def _arranged(verb: str | None, words: list[str]) -> list[str]:
    """The words of the command line, those of the verb in the order in which they are parsed."""
    if verb not in VERBS or not hasattr(_module(verb), "arranged"):
        return words
    after = words.index(verb) + 1
    return [*words[:after], *_module(verb).arranged(words[after:])]


def _parser(verb: str | None) -> _Parser:
    parser = _Parser(
        prog="cotenant",
        description="On a shared GPU host, ask which tenant did what.",
        epilog="cotenant VERB --help shows a verb's options, with examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"cotenant {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, line in VERBS.items():
        if name != verb:
            verbs.add_parser(name, help=line, add_help=False)
            continue
        module = _module(name)
        child = verbs.add_parser(
            name,
            help=line,
            description=module.HELP,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(child)
        child.set_defaults(run=module.run)
    return parser


def _one_line(error: CotenantError) -> str:
    """What is wrong; names in it are tenants' own, and must not move our cursor."""
    from cotenant.views.text import cell

    return cell(" ".join(str(error).splitlines()))


def _check(verb: str, strangers: list[str], words: list[str]) -> None:
    """Refuse options that the verb does not have, and text that no store can hold."""
    if strangers:
        unknown = " ".join(strangers)
        raise UsageError(f"{verb} knows no {unknown}; see `cotenant {verb} --help`")
    for word in words:
        # What follows `sim run` is for a program of the user's own.
        if verb != "sim" and not _is_utf8(word):
            raise UsageError(f"{word!r} is not UTF-8 text; write it anew")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def main(argv: list[str] | None = None) -> int:
    """Run one command; its exit code is 0 done, 1 failed, 2 wrong usage, 3 host not capable."""
    words = sys.argv[1:] if argv is None else argv
    verb = next((word for word in words if not word.startswith("-")), None)
    args, strangers = _parser(verb).parse_known_args(_arranged(verb, words))
    try:
        _check(args.verb, strangers, words)
        return int(args.run(args))
    except CotenantError as error:
        print(f"cotenant: {_one_line(error)}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output has seen enough; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
