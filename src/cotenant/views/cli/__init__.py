"""The `cotenant` command: one module per verb.

A verb is a module of this package with ``HELP``, ``EXAMPLES``, ``add_arguments(parser)`` and
``run(args)``, and ``arranged(words)`` if it accepts its words in an order that argparse does not.
Only the verb that runs is imported: `cotenant sql` does not wait for what `cotenant record` needs.
"""

import argparse
import difflib
import importlib
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Final, NoReturn

from cotenant.errors import CotenantError, UsageError
from cotenant.printable import printable
from cotenant.query.text.time_syntax import period_ns
from cotenant.views.cli.ending import ends_after
from cotenant.views.cli.fetched import fetched
from cotenant.views.cli.output import OutputError, discard_output
from cotenant.views.cli.version import ShowVersion

DEFAULT_STORE: Final = "/var/lib/cotenant"

# The verb, and its one line in the list.
VERBS: Final = {
    "record": "record this host until stopped",
    "demo": "record three simulated tenants on this host",
    "doctor": "check whether this host can be recorded",
    "health": "say whether the store is being written to",
    "tenants": "list tenants, with their events",
    "sql": "run read-only SQL on a store",
    "ask": "run a named question on a store",
    "explain": "rank problems by cost, with victim, culprit and evidence",
    "export": "write a report, a Perfetto trace, or tables as files",
    "ship": "send a store to another one, for many nodes",
    "import": "read device times from traces of PyTorch's profiler and nsys",
    "pull": "bring the rows of a node and time from another store",
    "top": "show tenants live in the terminal",
    "serve": "serve the page with the timeline, on loopback",
    "sim": "run workloads on the stand-in GPU",
    "completion": "print a script for your shell that completes commands",
    "help": "show what there is, or the help of a command",
}


class _Parser(argparse.ArgumentParser):
    """Prints one line on wrong usage: what is wrong, and the command that shows the help."""

    def error(self, message: str) -> NoReturn:
        """Exit with the code of wrong usage."""
        self.exit(2, f"{self.prog}: {printable(message)}; see `{self.prog} --help`\n")


def _directory(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("empty path; name a directory")
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
        help="print the kernel's full log of a program that it rejects",
    )


def apply_debug(args: argparse.Namespace) -> None:
    """Pass ``--debug`` on to all code that loads programs, in the helper too."""
    if args.debug:
        os.environ["COTENANT_DEBUG"] = "1"


def store_argument(parser: argparse.ArgumentParser, otherwise: str | None = None) -> None:
    """The ``--store`` option of every verb; ``otherwise`` describes the default of `demo`."""
    parser.add_argument(
        "--store",
        type=_directory,
        default=_store_of_environment() if otherwise else default_store(),
        metavar="DIR",
        help="directory of the store; readers take s3://BUCKET/PREFIX, too "
        f"(default: $COTENANT_STORE, else {otherwise or DEFAULT_STORE})",
    )


def _module(verb: str) -> ModuleType:
    return importlib.import_module(f"cotenant.views.cli.{verb}")


def _arranged(verb: str | None, words: list[str]) -> list[str]:
    """The command line, with the verb's words in the order that argparse expects."""
    if verb not in VERBS or not hasattr(_module(verb), "arranged"):
        return words
    after = words.index(verb) + 1
    return [*words[:after], *_module(verb).arranged(words[after:])]


def unknown_verb(name: str) -> UsageError:
    """There is no such command; those that look like it."""
    near = difflib.get_close_matches(name, VERBS, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "`cotenant help` lists them"
    return UsageError(f"there is no command {name}; {hint}")


def parser_of(verb: str | None) -> _Parser:
    """The parser of the command line; of its verbs, only this one knows its options."""
    parser = _Parser(
        prog="cotenant",
        description="On a shared GPU host, ask which tenant did what.",
        epilog="cotenant VERB --help shows a verb's options, with examples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=ShowVersion)
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
    """The error text on one line, without control characters: tenants choose names in it."""
    return printable(" ".join(str(error).splitlines()))


def _check(verb: str, strangers: list[str], words: list[str]) -> None:
    """Refuse unknown options, and words that are not UTF-8."""
    if strangers:
        unknown = " ".join(strangers)
        raise UsageError(f"{verb}: unknown argument {unknown}; {_meant(verb, strangers)}")
    for word in words:
        # Words after `sim run` go to the user's own program.
        if verb != "sim" and not _is_utf8(word):
            raise UsageError(f"{word!r} is not UTF-8; type it in UTF-8")


def _meant(verb: str, strangers: list[str]) -> str:
    """The options that look like the first unknown word; else where to look."""
    parser = argparse.ArgumentParser()
    _module(verb).add_arguments(parser)
    near = difflib.get_close_matches(
        strangers[0].partition("=")[0], parser._option_string_actions, n=1, cutoff=0.7
    )
    return f"did you mean {near[0]}?" if near else f"see `cotenant {verb} --help`"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def main(argv: list[str] | None = None, within: AbstractContextManager[None] | None = None) -> int:
    """Run one command; its exit code is 0 done, 1 failed, 2 wrong usage, 3 host not capable.

    What the command does once it is understood happens inside the context ``within``.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv, within or nullcontext())
    except CotenantError as error:
        print(f"cotenant: {_one_line(error)}", file=sys.stderr)
        if isinstance(error, OutputError):
            discard_output()
        return error.exit_code
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: not a failure.
        discard_output()
        return 0
    except KeyboardInterrupt:
        return 130


def _run(words: list[str], within: AbstractContextManager[None]) -> int:
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb is not None and verb not in VERBS:
        raise unknown_verb(verb)
    try:
        args, strangers = parser_of(verb).parse_known_args(_arranged(verb, words))
    except SystemExit:
        sys.stdout.flush()  # The help.
        raise
    _check(args.verb, strangers, words)
    timeout = None if getattr(args, "follow", False) else getattr(args, "timeout", None)
    limit = ends_after(period_ns(timeout) / 1e9) if timeout else nullcontext()
    with within, limit, fetched(args):
        code = int(args.run(args))
        sys.stdout.flush()
    return code
