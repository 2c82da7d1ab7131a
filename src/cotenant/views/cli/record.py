"""``cotenant record``: attach, record, seal, say what each tenant did."""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant.errors import UsageError
from cotenant.query.text.shell import option
from cotenant.schema.families import FAMILIES
from cotenant.views.cli import apply_debug, debug_argument, store_argument
from cotenant.views.cli.amounts import ring_bytes, share, size_bytes
from cotenant.views.window import duration_ns, period_ns

if TYPE_CHECKING:
    from cotenant.agent.recorder.main import Recorder
    from cotenant.agent.recorder.progress import Progress

HELP = "Record every GPU tenant of this host. Needs root; stops with Ctrl-C."
EXAMPLES = """
examples:
  sudo cotenant record                          # until Ctrl-C, into /var/lib/cotenant
  sudo cotenant record --for 30s --store /tmp/s
  sudo cotenant record --layers driver          # one probe per launch, none in the runtime
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    add = parser.add_argument
    add("--for", dest="duration", metavar="TIME", help="stop after 30s, 5m, 2h; else on a signal")
    add("--quiet", action="store_true", help="no summary at the end")
    add(
        "--group",
        metavar="NAME",
        help="group that may read the store (default: cotenant, where there is one)",
    )
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="tenants' names and exclusions (default: /etc/cotenant/config.toml, if any)",
    )
    debug_argument(parser)
    _add_what(parser.add_argument_group("what becomes a row"))
    _add_how(parser.add_argument_group("how it is seen"))
    _add_limits(parser.add_argument_group("how much"))


def _add_what(group: Any) -> None:
    group.add_argument(
        "--events",
        default=",".join(FAMILIES),
        metavar="LIST",
        help=f"which events, of {','.join(FAMILIES)} (default: all)",
    )
    group.add_argument(
        "--calls",
        choices=("operations", "all"),
        default="operations",
        help="GPU operations, or also calls about streams, events, contexts, modules, pools",
    )
    group.add_argument(
        "--host-rows",
        choices=("gpu", "all"),
        default="gpu",
        help="whose every span, wakeup, fork, exec and exit is a row (default: who uses a GPU)",
    )
    group.add_argument(
        "--host-threshold",
        default="10ms",
        metavar="TIME",
        help="spans off the CPU of everybody else are rows from here on (default: 10ms)",
    )


def _add_how(group: Any) -> None:
    group.add_argument(
        "--attach",
        choices=("session", "multi", "pair"),
        help="how probes are attached (default: the best that this kernel has)",
    )
    group.add_argument(
        "--probes",
        choices=("auto", "emulated", "any"),
        default="auto",
        help="whether functions may be single-stepped: where that is cheap, never, or where needed",
    )
    group.add_argument(
        "--ucx",
        choices=("expected", "absent"),
        default="expected",
        help="whether somebody here may use UCX, which hooks memory functions of the driver: "
        "absent probes them where both would be in each other's way (default: expected)",
    )
    group.add_argument(
        "--layers",
        choices=("auto", "driver", "both"),
        default="auto",
        help="which libraries are probed at each launch (default: auto)",
    )
    group.add_argument(
        "--hierarchy",
        default="auto",
        metavar="NAME",
        help="cgroup hierarchy that names tenants: auto, v2, or a version 1 controller",
    )
    group.add_argument(
        "--ring-bytes",
        type=ring_bytes,
        default=16 << 20,
        metavar="SIZE",
        help="size of the event ring, a power of two (default: 16 MiB)",
    )


def _add_limits(group: Any) -> None:
    group.add_argument(
        "--keep",
        metavar="TIME",
        help="let rows go that are older than this: 90m, 7d (default: never)",
    )
    group.add_argument(
        "--max-bytes",
        type=size_bytes,
        metavar="SIZE",
        help="let the oldest rows go when the store outgrows this: 500m, 10g (default: never)",
    )
    group.add_argument(
        "--budget",
        type=share,
        metavar="PERCENT",
        help="what probes may cost a thread before its calls are only counted (default: 5%%; off)",
    )
    group.add_argument(
        "--budget-rest",
        metavar="TIME",
        help="how long probes stay away that cost everybody too much even so (default: 30s)",
    )


def _families(text: str) -> tuple[str, ...]:
    """``cuda,host`` as a tuple."""
    chosen = tuple(word.strip() for word in text.split(",") if word.strip())
    if not chosen or not set(chosen) <= set(FAMILIES):
        raise UsageError(f"--events {text}: choose from {', '.join(FAMILIES)}")
    return chosen


def _recorder(args: argparse.Namespace) -> "Recorder":
    """What is to be recorded, and by whom."""
    from cotenant.agent.recorder.helper_client import HelperClient
    from cotenant.confine.capabilities import need_root

    chosen = _chosen(args)
    need_root()
    # Both have much to import: it does so meanwhile.
    helper = HelperClient()
    try:
        from cotenant.agent.config import load_config
        from cotenant.agent.recorder.main import Recorder
        from cotenant.agent.settings import Settings

        return Recorder(Settings(**chosen, config=load_config(args.config)), helper)
    except BaseException:
        helper.dismiss()
        raise


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The options as settings."""
    chosen = {
        "store": Path(args.store),
        "seconds": period_ns(args.duration) / 1e9 if args.duration is not None else None,
        "attach": args.attach,
        "probes": args.probes,
        "ucx": args.ucx,
        "layers": args.layers,
        "calls": args.calls,
        "hierarchy": args.hierarchy,
        "events_bytes": args.ring_bytes,
        "group": args.group,
        "events": _families(args.events),
        "host_threshold_ns": duration_ns(args.host_threshold),
        "host_rows": args.host_rows,
        "keep_ns": period_ns(args.keep) if args.keep is not None else None,
        "max_bytes": args.max_bytes,
    }
    if args.budget is not None:
        chosen["budget"] = args.budget
    if args.budget_rest is not None:
        chosen["budget_rest_s"] = duration_ns(args.budget_rest) / 1e9
    return chosen


def run(args: argparse.Namespace) -> int:
    """Record until the time is up or a signal comes."""
    from cotenant.agent.malloc import keep_memory

    keep_memory()
    apply_debug(args)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    began_ns = time.time_ns()  # Before the first row: others may lie in this store already.
    recorder = _recorder(args)
    recorder.attach()
    print(f"recording into {args.store}; stop with Ctrl-C", file=sys.stderr, flush=True)
    line = _LiveLine(recorder.notices)
    line.tell()
    recorder.run(stop, line.show)
    line.end()
    if not args.quiet:
        from cotenant.views.summary import print_summary

        print_summary(Path(args.store), began_ns)
        print(f"\nNext: cotenant tenants {option('--store', args.store)}")
    return 0


class _LiveLine:
    """Events a second, tenants, losses: on a terminal only."""

    def __init__(self, notices: list[str]) -> None:
        self._notices = notices
        self._told = 0
        self._live = sys.stderr.isatty()
        self._last = (time.monotonic(), 0)
        self._trouble: str | None = None

    def show(self, progress: "Progress") -> None:
        """Write the line anew; what is wrong is said wherever we write to."""
        self.tell()
        if progress.trouble != self._trouble:
            self._trouble = progress.trouble
            text = progress.trouble or "rows are written again"
            print(f"cotenant: {text}", file=sys.stderr, flush=True)
        if not self._live:
            return
        now = time.monotonic()
        rate = (progress.events - self._last[1]) / max(now - self._last[0], 1e-3)
        self._last = (now, progress.events)
        print(
            f"\r\033[K{rate:,.0f} events/s  {progress.tenants} tenants  "
            f"{progress.libraries} libraries  {progress.lost} lost",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        """Leave the line empty for what comes next."""
        self._clear()
        self.tell()

    def tell(self) -> None:
        """Say what is new."""
        for notice in self._notices[self._told :]:
            self._clear()
            print(f"cotenant: {notice}", file=sys.stderr, flush=True)
        self._told = len(self._notices)

    def _clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
