"""``cotenant record``: attach, record, seal, say what each tenant did."""

import argparse
import signal
import sys
import threading
import time
from pathlib import Path

from cotenant.views.cli import store_argument
from cotenant.views.cli.duration import seconds

HELP = "Record every GPU tenant of this host. Needs root; stops with Ctrl-C."
EXAMPLES = """
examples:
  sudo cotenant record                       # until Ctrl-C, into /var/lib/cotenant
  sudo cotenant record --for 30s --store /tmp/s
  sudo cotenant record --layers driver       # one probe per launch, no runtime library
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser)
    parser.add_argument("--for", dest="duration", type=seconds, metavar="TIME", help="stop after 30s, 5m, 2h")
    parser.add_argument("--attach", choices=("session", "multi", "pair"), help="force how probes are attached")
    parser.add_argument("--layers", choices=("auto", "driver", "both"), default="auto", help="which libraries are probed at each launch")
    parser.add_argument("--hierarchy", default="auto", metavar="NAME", help="which cgroup hierarchy names tenants: auto, v2, or a version 1 controller")
    parser.add_argument("--ring-bytes", type=int, default=16 << 20, metavar="N", help="size of the event ring, a power of two (default: 16 MiB)")


def run(args: argparse.Namespace) -> int:
    """Record until the time is up or a signal comes."""
    from cotenant.agent.record import Recorder
    from cotenant.agent.settings import Settings

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    recorder = Recorder(
        Settings(
            store=Path(args.store),
            seconds=args.duration,
            attach=args.attach,
            layers=args.layers,
            hierarchy=args.hierarchy,
            events_bytes=args.ring_bytes,
        )
    )
    recorder.attach()
    print(f"recording into {args.store}; stop with Ctrl-C", file=sys.stderr, flush=True)
    line = _LiveLine()
    recorder.run(stop, line.show)
    line.end()
    return 0


class _LiveLine:
    """Events a second, tenants, losses: on a terminal only."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._last = (time.monotonic(), 0)

    def show(self, progress: object) -> None:
        if not self._live:
            return
        now, events = time.monotonic(), progress.events  # type: ignore[attr-defined]
        rate = (events - self._last[1]) / max(now - self._last[0], 1e-3)
        self._last = (now, events)
        print(
            f"\r\033[K{rate:,.0f} events/s  {progress.tenants} tenants  "  # type: ignore[attr-defined]
            f"{progress.libraries} libraries  {progress.lost} lost",  # type: ignore[attr-defined]
            end="",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
