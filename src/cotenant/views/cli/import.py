"""``cotenant import``: device times that a profiler measured, matched to recorded operations."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.errors import UsageError
from cotenant.printable import printable
from cotenant.profiles.importing import Compared, GpuTime, Profile, compared, found, gpu_times
from cotenant.query.engine.session import Session
from cotenant.store.layout import check_readable
from cotenant.views import tables, text
from cotenant.views.cli import store_argument
from cotenant.views.cli.layout import add_layout_arguments, chosen_layout
from cotenant.views.window import add_window_arguments, window

HELP = (
    "Read a trace of PyTorch's profiler or an nsys export, find its operations in a store, show "
    "how far our estimates are off, and store the measured times: evidence for later estimates."
)
EXAMPLES = """
examples:
  cotenant import trace.json.gz                  # torch.profiler: export_chrome_trace()
  nsys export --type sqlite -o run.sqlite run.nsys-rep
  cotenant import run.sqlite --tenant train
  cotenant import run.sqlite --compare           # beside a recorder: store nothing
  cotenant ask gpu_use                           # what is known of this tenant now
"""
_KERNELS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    parser.add_argument(
        "file", metavar="FILE", help="a .json or .json.gz of PyTorch's profiler, or nsys's .sqlite"
    )
    parser.add_argument(
        "--compare", action="store_true", help="show how far estimates are off, store nothing"
    )
    add_layout_arguments(parser)
    add_window_arguments(parser)
    store_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Match, compare, store."""
    chosen = window(args)
    root = Path(args.store)
    if not args.compare:
        _check_writable(root)
    given = any(chosen[name] is not None for name in ("from_ns", "to_ns", "since_ns"))

    def opened(from_ns: int | None, to_ns: int | None) -> Session:
        return Session(root, **(chosen if given else chosen | {"from_ns": from_ns, "to_ns": to_ns}))

    profile = found(Path(args.file), opened)
    rows = profile.recorded.called
    with opened(int(rows.min()), int(rows.max()) + 1) as session:
        estimates, used = compared(profile, session), gpu_times(profile, session)
    _print_matches(profile)
    print(*_table(estimates, args), sep="\n")
    for line in map(_used, used):
        print(line)
    if args.compare:
        return 0
    fresh = profile.fresh
    with _as_owner(root):
        profile.stored(root)
    again = profile.matched - fresh
    known = f"; {text.count(again)} were there" if again else ""
    print(f"stored {text.count(fresh)} device times in {printable(args.store)}{known}")
    return 0


def _check_writable(root: Path) -> None:
    """Raise UsageError unless we are the store's user, or may become it."""
    check_readable(root)
    owner = root.stat().st_uid
    if os.geteuid() not in (0, owner):
        raise UsageError(
            f"{root} belongs to user {owner}; run this as that user or as root, "
            "or with --compare, which stores nothing"
        )


@contextmanager
def _as_owner(root: Path) -> Iterator[None]:
    """Be the user of the store, whose recorder continues what we write."""
    status, before = root.stat(), (os.geteuid(), os.getegid())
    if before[0] == status.st_uid:
        yield
        return
    os.setegid(status.st_gid)
    os.seteuid(status.st_uid)
    try:
        yield
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])


def _print_matches(profile: Profile) -> None:
    total = len(profile.operations)
    part = 100 * profile.matched / total
    print(
        f"{profile.program} profile: matched {text.count(profile.matched)} of "
        f"{text.count(total)} operations ({_floor(part)} %)"
    )
    for one in profile.matches:
        process = one.process
        print(
            printable(
                f"  {process.tenant}, process {process.pid} of {process.node}: "
                f"{text.count(one.matched)} of {text.count(len(one.operations))}; the file's clock "
                f"is off by {text.duration(one.offset_ns)}, half of the operations within "
                f"{text.duration(one.spread_ns)} of that"
            )
        )


def _floor(percent: float) -> str:
    """With one digit, and 100 only if it is all."""
    return f"{int(percent * 10) / 10:g}"


def _table(estimates: list[Compared], args: argparse.Namespace) -> list[str]:
    *kernels, every = estimates
    rows = [_row(one) for one in (*kernels[:_KERNELS], every)]
    names = list(rows[0])
    lines = tables.table(names, [list(row.values()) for row in rows], chosen_layout(args))
    if len(kernels) > _KERNELS:
        lines = [*lines, f"{len(kernels) - _KERNELS} more kernels are in the sum"]
    if not every.known:
        print("no estimate is known of these operations", file=sys.stderr)
    return lines


def _used(one: GpuTime) -> str:
    held = "within" if one.low_ns <= one.measured_ns <= one.high_ns else "outside"
    return printable(
        f"GPU time of {one.tenant}: measured {text.duration(one.measured_ns)}, estimated "
        f"{text.duration(one.estimated_ns)} ({100 * one.error:+.1f} %); {held} the interval of "
        f"{text.duration(one.low_ns)} to {text.duration(one.high_ns)}"
    )


def _row(one: Compared) -> dict[str, object]:
    known = one.known > 0
    return {
        "kernel_name": one.kernel_name,
        "operations": one.operations,
        "measured_ms": round(one.measured_ns / 1e6, 3),
        "alone_ms": round(one.estimated_ns / 1e6, 3) if known else None,
        "error": None if one.error is None else f"{100 * one.error:+.1f} %",
        "low_ms": round(one.low_ns / 1e6, 3) if known else None,
        "high_ms": round(one.high_ns / 1e6, 3) if known else None,
        "estimated": one.known,
    }
