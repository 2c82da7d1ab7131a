"""A recording under measurement: started as users start it, watched through /proc."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

import duckdb

from cotenant.store.manifest import current_segments

ROOT = Path(__file__).parents[1]
SIM = ROOT / "sim" / "build"
COTENANT = [sys.executable, "-m", "cotenant"]
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor time that a process has used so far, with children that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[i]) for i in (11, 12, 13, 14)) / TICKS


def pss_kb(pid: int, what: str = "Pss") -> int:
    """Memory of a process, shared pages divided by those who share them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    return 0


def own_kb(pid: int) -> int:
    """Memory of a process that is no file's: what others map does not change it."""
    return pss_kb(pid, "Pss_Anon")


def children(pid: int) -> list[int]:
    """Processes that a process has started and not waited for."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # A thread that ended meanwhile.
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def family(pid: int) -> list[int]:
    """A recorder, its helper, and the two processes that demangle."""
    started = children(pid)
    below = [child for each in started for child in children(each)]
    return [pid, *started, *(child for child in below if b"demangler" in command_line(child))]


def command_line(pid: int) -> bytes:
    """Its words; none of a process that ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Agent:
    """``cotenant record`` between two moments, with what it used."""

    def __init__(self, store: Path, *options: str) -> None:
        self.store = store
        self._options = options
        self.peak_pss_kb = 0
        self.cpu_s = 0.0
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        errors = self.store.with_name(self.store.name + ".stderr")
        with errors.open("w") as stream:
            self.process = subprocess.Popen(
                [*COTENANT, "record", "--store", str(self.store), *self._options],
                stderr=stream,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )
        while not errors.read_text().startswith("recording"):
            if self.process.poll() is not None:
                raise SystemExit(errors.read_text())
            time.sleep(0.05)
        self.pids = family(self.process.pid)
        self._cpu_before = self._cpu()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def _cpu(self) -> float:
        return sum(cpu_s(pid) for pid in self.pids)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                self.peak_pss_kb = max(self.peak_pss_kb, sum(map(pss_kb, self.pids)))
                self.cpu_s = self._cpu() - self._cpu_before
            except OSError:
                return

    def __exit__(self, *_: object) -> None:
        time.sleep(1.2)  # What was produced is sealed: its cost belongs to it.
        self._stop.set()
        self._watcher.join()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """What the store answers, read by DuckDB without our code."""
        with duckdb.connect(":memory:") as connection:
            for table in ("cuda_events", "losses", "totals", "containers", "sessions"):
                files = [
                    str(self.store / s.path)
                    for s in current_segments(self.store)
                    if s.table == table
                ]
                if files:
                    connection.execute(f"CREATE VIEW {table} AS FROM read_parquet({files})")
            return connection.execute(query).fetchall()

    def bytes_of(self, table: str) -> tuple[int, int]:
        """Bytes and rows of a table's segments."""
        mine = [s for s in current_segments(self.store) if s.table == table]
        return sum(s.bytes for s in mine), sum(s.rows for s in mine)


def workload(*options: str, device: str = "cotenant-bench", **more: Any) -> "subprocess.Popen[str]":
    """A program on the stand-in GPU."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM), "COTENANT_SIM_DEVICE": device}
    return subprocess.Popen(
        [str(SIM / "workload"), *options],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        **more,
    )
