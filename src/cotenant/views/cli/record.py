"""``cotenant record``: attach, record, seal, say what each tenant did."""

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cotenant.confine.user import NAME, USER_ID
from cotenant.errors import UsageError
from cotenant.printable import printable
from cotenant.query.text.shell import option
from cotenant.query.text.time_syntax import duration_ns, period_ns
from cotenant.schema.families import FAMILIES
from cotenant.views.cli import apply_debug, debug_argument, store_argument
from cotenant.views.cli.amounts import ring_bytes, share, size_bytes
from cotenant.views.cli.ending import unwatched
from cotenant.views.cli.stop_signal import StopSignal

if TYPE_CHECKING:
    from cotenant.agent.config import Config
    from cotenant.agent.recorder.main import Recorder
    from cotenant.agent.recorder.progress import Progress

HELP = "Record every GPU tenant of this host. Needs root; Ctrl-C stops it."
EXAMPLES = """
examples:
  sudo cotenant record                          # until Ctrl-C, into /var/lib/cotenant
  sudo cotenant record --for 30s --store /tmp/s
  sudo cotenant record --layers driver          # one probe per launch: the runtime has none
"""
_KEEP_ROLLUPS: Final = "400d"
_STOPPING: Final = "\nstopping: sealing what was recorded; another Ctrl-C ends without\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    add = parser.add_argument
    add("--for", dest="duration", metavar="TIME", help="stop after 30s, 5m, 2h (default: never)")
    add("--quiet", action="store_true", help="print no summary at the end")
    add(
        "--user",
        metavar="NAME",
        help="user that the recorder becomes, and whose the store is (default: cotenant; where "
        f"there is none, the user id {USER_ID})",
    )
    add(
        "--group",
        metavar="NAME",
        help="group that may read the store (default: cotenant, if it exists)",
    )
    add(
        "--node",
        metavar="NAME",
        help="what this host is called in the store (default: `node` in the configuration, else "
        "$NODE_NAME, else the host's name)",
    )
    add(
        "--adopt",
        action="store_true",
        help="go on with a node of this name that another machine recorded, such as this host "
        "before it was reinstalled",
    )
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="node and tenant names, exclusions (default: /etc/cotenant/config.toml, if it exists)",
    )
    debug_argument(parser)
    _add_what(parser.add_argument_group("what to record"))
    _add_how(parser.add_argument_group("how to attach"))
    _add_limits(parser.add_argument_group("limits"))


def _add_what(group: Any) -> None:
    group.add_argument(
        "--events",
        default=",".join(FAMILIES),
        metavar="LIST",
        help=f"families to record, out of {','.join(FAMILIES)} (default: all)",
    )
    group.add_argument(
        "--calls",
        choices=("operations", "all"),
        default="operations",
        help="operations: GPU operations only; all: also calls on streams, events, contexts, "
        "modules and pools (default: operations)",
    )
    group.add_argument(
        "--host-rows",
        choices=("gpu", "all"),
        default="gpu",
        help="record every off-CPU interval, wakeup, fork, exec and exit: of threads and tenants "
        "that use a GPU (gpu), or of all (all) (default: gpu)",
    )
    group.add_argument(
        "--host-threshold",
        default="10ms",
        metavar="TIME",
        help="of other threads, record off-CPU intervals at least this long (default: 10ms)",
    )

    group.add_argument(
        "--net-rows",
        choices=("network", "all"),
        default="network",
        help="record every message over TCP, UDP and other network sockets (network), or also over "
        "Unix sockets, which are else counted in totals only (all) (default: network)",
    )


def _add_how(group: Any) -> None:
    group.add_argument(
        "--attach",
        choices=("session", "multi", "pair"),
        help="how to attach probes (default: the best method that this kernel supports)",
    )
    group.add_argument(
        "--probes",
        choices=("auto", "emulated", "any"),
        default="auto",
        help="single-step a function that has no emulated site: if a trial shows it to be cheap "
        "(auto), never (emulated), always (any) (default: auto)",
    )
    group.add_argument(
        "--layers",
        choices=("auto", "driver", "both"),
        default="auto",
        help="CUDA libraries to probe: the driver only (driver), driver and runtime (both), or "
        "both until the driver alone proves enough (auto) (default: auto)",
    )
    group.add_argument(
        "--hierarchy",
        default="auto",
        metavar="NAME",
        help="cgroup hierarchy that identifies tenants: auto, v2, or a v1 controller "
        "(default: auto)",
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
        help="delete rows older than this: 90m, 7d (default: keep all)",
    )
    group.add_argument(
        "--keep-rollups",
        metavar="TIME",
        help="delete rollups older than this; after 6 hours they are minutes, after 7 days hours "
        f"(default: {_KEEP_ROLLUPS} if --keep is set, else keep all)",
    )
    group.add_argument(
        "--max-bytes",
        type=size_bytes,
        metavar="SIZE",
        help="delete the oldest rows when the store exceeds this: 500m, 10g (default: no limit)",
    )
    group.add_argument(
        "--budget",
        type=share,
        metavar="PERCENT",
        help="share of a thread's time that recorded calls may take, over 20 seconds; unused "
        "budget is saved for 10 seconds; beyond it, calls are recorded by chance and the others "
        "counted, which takes about 0.5 us each on top; off: no limit (default: 5%%)",
    )
    group.add_argument(
        "--kernel-budget",
        type=share,
        metavar="PERCENT",
        help="share of each CPU's time that programs on kernel events may take; beyond it, those "
        "of tenants without a GPU are counted but not recorded; off: no limit (default: 1%%)",
    )
    group.add_argument(
        "--budget-rest",
        metavar="TIME",
        help="where a tenant exceeds the budget even when its calls are only counted, and no other "
        "has the library mapped, detach the function: for this long, then twice as long each time, "
        "up to 16 times this (default: 30s)",
    )


def _families(text: str) -> tuple[str, ...]:
    """``cuda,host`` as a tuple."""
    chosen = tuple(word.strip() for word in text.split(",") if word.strip())
    if not chosen or not set(chosen) <= set(FAMILIES):
        raise UsageError(f"--events {text}: unknown family; choose from {', '.join(FAMILIES)}")
    return chosen


def _recorder(args: argparse.Namespace) -> "Recorder":
    """A recorder with these options, and its helper."""
    from cotenant.agent.recorder.helper_client import HelperClient
    from cotenant.confine.capabilities import need_root

    chosen = _chosen(args)
    need_root()
    # Both import a lot; the helper starts now so that they do it in parallel.
    helper = HelperClient()
    try:
        from cotenant.agent.config import load_config
        from cotenant.agent.recorder.main import Recorder
        from cotenant.agent.settings import Settings

        config = load_config(args.config)
        if chosen["keep_rollups_ns"] is None:
            chosen["keep_rollups_ns"] = _usual_rollups_ns(config, rows_go=args.keep is not None)
        settings = Settings(**chosen, config=config)
        return Recorder(settings, helper)
    except BaseException:
        helper.dismiss()
        raise


def _usual_rollups_ns(config: "Config", *, rows_go: bool) -> int | None:
    """How long rollups are kept if no option says so; for ever if rows are."""
    text = config.keep_rollups or (_KEEP_ROLLUPS if rows_go else None)
    return None if text is None else period_ns(text)


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The options as settings."""
    chosen = {
        "store": Path(args.store),
        "seconds": period_ns(args.duration) / 1e9 if args.duration is not None else None,
        "attach": args.attach,
        "probes": args.probes,
        "layers": args.layers,
        "calls": args.calls,
        "hierarchy": args.hierarchy,
        "events_bytes": args.ring_bytes,
        "group": args.group,
        "user": args.user,
        "node": args.node,
        "adopt": args.adopt,
        "events": _families(args.events),
        "host_threshold_ns": duration_ns(args.host_threshold),
        "host_rows": args.host_rows,
        "net_rows": args.net_rows,
        "keep_ns": period_ns(args.keep) if args.keep is not None else None,
        "keep_rollups_ns": period_ns(args.keep_rollups) if args.keep_rollups is not None else None,
        "max_bytes": args.max_bytes,
    }
    if args.budget is not None:
        chosen["budget"] = args.budget
    if args.kernel_budget is not None:
        chosen["kernel_budget"] = args.kernel_budget
    if args.budget_rest is not None:
        chosen["budget_rest_s"] = duration_ns(args.budget_rest) / 1e9
    return chosen


def run(args: argparse.Namespace) -> int:
    """Record until the time is up or a signal comes."""
    from cotenant.agent.malloc import keep_memory

    unwatched()
    keep_memory()
    apply_debug(args)
    began_ns = time.time_ns()  # Earlier rows in this store are of other recordings.
    # An error is put into words by it, when nothing can be imported any more.
    import cotenant.views.text  # noqa: F401

    recorder = _recorder(args)
    if not args.quiet:
        # Later it could not be read any more, if it lies where only root can go.
        from cotenant.views.summary import print_summary
    recorder.attach()
    stop = StopSignal((signal.SIGINT, signal.SIGTERM), _STOPPING)
    nobody = args.user is None and recorder.user.name is None
    whom = f" as {recorder.user}, for want of a user {NAME}" if nobody else ""
    print(f"recording into {args.store}{whom}; stop with Ctrl-C", file=sys.stderr, flush=True)
    line = _LiveLine(recorder.notices)
    line.tell()
    recorder.run(stop, line.show)
    line.end()
    if not args.quiet:
        print_summary(recorder.store, began_ns, recorder.node)
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
        """Rewrite the line; print a new problem even if this is no terminal."""
        self.tell()
        if progress.trouble != self._trouble:
            self._trouble = progress.trouble
            said = progress.trouble or "rows are written again"
            print(f"cotenant: {printable(said)}", file=sys.stderr, flush=True)
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
        """Clear the line for the output that follows."""
        self._clear()
        self.tell()

    def tell(self) -> None:
        """Print new notices."""
        for notice in self._notices[self._told :]:
            self._clear()
            print(f"cotenant: {printable(notice)}", file=sys.stderr, flush=True)
        self._told = len(self._notices)

    def _clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
