"""``cotenant sim``: runs GPU programs without a GPU."""

import argparse
import os

from cotenant import sim
from cotenant.errors import CotenantError

HELP = "Run GPU programs on the stand-in libraries."
EXAMPLES = """
examples:
  cotenant sim path                                  # where the libraries are
  cotenant sim run train --steps 100 --rate 20       # a training loop
  cotenant sim run noisy --api runtime13 --steps 9999
  cotenant sim run ./a.out                           # built with nvcc -cudart shared
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two actions; words after the workload are passed to it."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="path|run")
    actions.add_parser("path", help="print the directory of the stand-in libraries")
    run_parser = actions.add_parser("run", help="run a workload on them")
    run_parser.add_argument(
        "workload", help=f"a built-in workload ({', '.join(sim.STORIES)}) or your own program"
    )
    run_parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed to the workload")


def run(args: argparse.Namespace) -> int:
    """Print the path, or exec the workload, so that signals and exit code are its own."""
    if args.action == "path":
        print(sim.library_dir())
        return 0
    line = sim.command(args.workload, args.arguments)
    try:
        os.execvpe(line[0], line, sim.environment())
    except OSError as error:
        raise CotenantError(f"cannot run {line[0]}: {error.strerror}; check its path") from error
