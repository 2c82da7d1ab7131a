"""``cotenant demo``: records three simulated tenants and runs the README's two queries."""

import argparse
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cotenant.errors import CotenantError, Unsupported
from cotenant.query.engine.session import Session
from cotenant.query.questions.promises import NAMES, promise
from cotenant.query.text.shell import option
from cotenant.sim.idle import gpu_processes
from cotenant.sim.place import best_place
from cotenant.sim.tenant import Shared, demo_tenants
from cotenant.store.ownership import check_way
from cotenant.views import text
from cotenant.views.cli import store_argument
from cotenant.views.cli.stop_signal import StopSignal
from cotenant.views.summary import print_summary
from cotenant.views.tables import Layout, table
from cotenant.views.window import period_ns

HELP = "Run three tenants on a simulated GPU, record them, and print what each did."
EXAMPLES = """
examples:
  sudo cotenant demo                              # 20 s, into a new directory in /tmp
  sudo cotenant demo --store /tmp/d --for 60s     # one minute, into a store of your choice
  sudo cotenant demo --if-idle                    # record real GPU processes, if there are any
"""
_TELL_S: Final = 5.0
_LOOK_S: Final = 0.1
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOPPING: Final = "\nstopping: removing the tenants; another Ctrl-C leaves them\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this verb."""
    store_argument(parser, otherwise="a new directory in /tmp")
    parser.add_argument(
        "--for", dest="duration", default="20s", metavar="TIME",
        help="how long the tenants run (default: 20s)",
    )  # fmt: skip
    parser.add_argument(
        "--if-idle", action="store_true",
        help="if processes on this host use a GPU, record those instead of simulating",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Record the tenants, stop, and print answers."""
    if os.geteuid() != 0:
        raise Unsupported("recording needs root; use sudo (reading a store does not)")
    seconds = period_ns(args.duration) / 1e9
    began_ns = time.time_ns()  # Earlier rows in this store are of other recordings.
    with _Demo(args.store) as demo:
        users = gpu_processes() if args.if_idle else 0
        if users:
            _say(f"{users} processes use a GPU library: recording them for {seconds:g} s")
            with demo.recorder({}), _countdown(seconds):
                demo.stop.wait(seconds)
        else:
            if args.if_idle:
                _say("no process here uses a GPU library: running simulated tenants")
            _simulate(demo, seconds)
    _answer(demo.store, began_ns)
    return 0


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class _Demo:
    """What is there until the answers: a store, and a first Ctrl-C after which all is removed."""

    def __init__(self, store: str | None) -> None:
        self._chosen = store
        self._recorder: _DemoRecorder | None = None

    def __enter__(self) -> "_Demo":
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        heeded = [n for n, before in self._before.items() if before != signal.SIG_IGN]
        self.stop = StopSignal(heeded, _STOPPING, self._stop_recorder)
        made = self._chosen or tempfile.mkdtemp(prefix="cotenant-demo-")
        self.store = Path(made).absolute()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        stopped = self.stop.wait(0)
        if stopped and (error is None or isinstance(error, CotenantError)):
            raise self._stopped()

    def recorder(self, environment: dict[str, str]) -> "_DemoRecorder":
        """A recording into the store."""
        self._recorder = _DemoRecorder(self.store, environment, self.stop)
        return self._recorder

    def check(self) -> None:
        """Go no further after Ctrl-C."""
        if self.stop.wait(0):
            raise self._stopped()

    def _stop_recorder(self) -> None:
        if self._recorder is not None:
            self._recorder.end()

    def _stopped(self) -> CotenantError:
        recorded = self._recorder is not None and self._recorder.began
        error = CotenantError(
            f"stopped; what was recorded is in {self.store}" if recorded else "stopped"
        )
        error.exit_code = 128 + signal.SIGINT
        if self._chosen is None:
            with suppress(OSError):
                self.store.rmdir()  # Unless there is something in it.
        return error


def _simulate(demo: _Demo, seconds: float) -> None:
    store = demo.store
    shared = Shared(store.with_name(store.name + ".sim"))
    tenants = demo_tenants(seconds)
    _say("making containers, or cgroups where none can run, and starting the recorder ...")
    check_way(shared.directory)
    shared.prepare(tenants)
    with (
        tempfile.TemporaryDirectory(prefix="cotenant-demo-") as directory,
        best_place(Path(directory) / "docker", demo.stop.wait) as place,
    ):
        demo.check()
        with demo.recorder(place.environment):
            names = ", ".join(tenant.name for tenant in tenants)
            _say(f"{names} run {place.words} for about {seconds:g} s")
            for tenant in tenants:
                demo.check()
                place.start(tenant, shared)
                _say(f"{tenant.name} runs")
            with _countdown(seconds):
                place.wait(demo.stop.wait)
            demo.check()
            _say("all have ended; sealing what was recorded and removing them ...")
    _say(f"the tenants' own logs are in {shared.directory / 'truth'}")


@contextmanager
def _countdown(seconds: float) -> Iterator[None]:
    """How far it is, every few seconds; on a terminal, every second in one line."""
    ended, began = threading.Event(), time.monotonic()
    live = sys.stderr.isatty()

    def tell() -> None:
        while not ended.wait(1.0 if live else _TELL_S):
            passed = time.monotonic() - began
            words = f"recording: {passed:.0f} s of about {seconds:g} s"
            print(f"\r\033[K{words}" if live else words, end="" if live else "\n", file=sys.stderr)
            sys.stderr.flush()

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class _DemoRecorder:
    """`cotenant record` as a child process, from its first row to its last seal."""

    def __init__(self, store: Path, environment: dict[str, str], stop: StopSignal) -> None:
        self._stop = stop
        self._told = False
        self.began = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cotenant", "record", "--store", str(store), "--quiet"],
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,  # Ctrl-C is for us, who tell it once.
        )

    def __enter__(self) -> "_DemoRecorder":
        assert self._process.stderr is not None
        while not select.select([self._process.stderr], [], [], _LOOK_S)[0]:
            if self._stop.wait(0):
                self.end()
                break
        line = self._process.stderr.readline()
        self.began = line.startswith("recording")
        if not self.began:
            self._process.wait()
            raise _failed(self._process.returncode, line)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._told:
            self.end()
        said = self._process.communicate()[1]
        if self._process.returncode:
            raise _failed(self._process.returncode, said)

    def end(self) -> None:
        """As its user would; a second time it does not seal."""
        self._told = True
        self._process.send_signal(signal.SIGINT)


def _failed(code: int, said: str) -> CotenantError:
    error = CotenantError(said.strip().removeprefix("cotenant: ") or "the recorder failed")
    error.exit_code = code
    return error


def _answer(store: Path, began_ns: int) -> None:
    print_summary(store, began_ns)
    with Session(store, from_ns=began_ns) as session:
        for name in NAMES:
            answer = session.ask(promise(name))
            print("\n" + promise(name).rstrip())
            columns = answer.table.column_names
            rows = [[row[column] for column in columns] for row in answer.rows()]
            print("", *table(columns, rows, Layout.of_output()), sep="\n")
            for missing in text.incompleteness(answer.standing):
                print(missing)
    here = option("--store", str(store))
    print(f"\nNext: cotenant explain {here}")
    print(f'      cotenant sql {here} "from cuda_events limit 5"')
    print(f"      cotenant ask {here}")
