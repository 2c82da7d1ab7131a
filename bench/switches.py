"""What the kernel probes cost at 100,000 context switches a second.

usage: bench/switches.py [SECONDS] [PAIRS]

Two numbers. By the kernel's own BPF run-time statistics: the time spent in each program, as a
share of the machine. Interleaved: processor time of one switch, without and with a recording, in
turn; the ratio of the medians is what a program that does nothing but switch would notice.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.agent import Agent
from tests.kernel.objects import listed

CLIENT = Path(__file__).parent / "clients" / "switches.c"
RATE = 100_000
STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
OURS = ("host_", "io_", "net_", "tcp_")


def build(directory: Path) -> Path:
    """The client, compiled."""
    program = directory / "switches"
    subprocess.run(["gcc", "-O2", "-o", program, CLIENT], check=True)
    return program


def spent() -> dict[str, tuple[int, int]]:
    """Runs and nanoseconds of our programs so far."""
    return {
        p["name"]: (p.get("run_cnt", 0), p.get("run_time_ns", 0))
        for p in listed("prog")
        if p.get("name", "").startswith(OURS)
    }


@contextmanager
def statistics_on() -> Iterator[None]:
    """The kernel counts the run time of BPF programs, which costs a little itself."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def cpu_ns_a_switch(client: Path, seconds: float) -> float:
    """Processor time of one pair that switches flat out, whoever else is on the machine."""
    done = subprocess.run(
        [client, "0", str(seconds), "0"], capture_output=True, text=True, check=True
    )
    made, used_ns = map(int, done.stdout.split())
    return used_ns / made


def at_a_rate(client: Path, store: Path, seconds: float) -> dict[str, Any]:
    """The programs' share of the machine at RATE switches a second."""
    cpus = os.cpu_count() or 1
    with statistics_on(), Agent(store, "--quiet"):
        before, began = spent(), time.monotonic()
        pairs = [
            subprocess.Popen(
                [client, str(cpu), str(seconds), str(RATE // cpus)], stdout=subprocess.PIPE
            )
            for cpu in range(cpus)
        ]
        made = sum(int(pair.communicate()[0].split()[0]) for pair in pairs)
        wall, after = time.monotonic() - began, spent()
    total, programs = 0, {}
    for name, (runs, ns) in sorted(after.items()):
        runs, ns = runs - before[name][0], ns - before[name][1]
        total += ns
        if runs:
            programs[name] = {"runs_per_s": round(runs / wall), "ns_each": round(ns / runs)}
    return {
        "switches_per_s": round(made / wall),
        "cpus": cpus,
        "share_of_machine": round(total / 1e9 / wall / cpus, 5),
        "programs": programs,
    }


def interleaved(client: Path, directory: Path, seconds: float, pairs: int) -> dict[str, Any]:
    """Processor time of a switch, without and with a recording, in turn."""
    without, recorded = [], []
    for turn in range(pairs):
        without.append(cpu_ns_a_switch(client, seconds))
        with Agent(directory / f"turn{turn}", "--quiet"):
            recorded.append(cpu_ns_a_switch(client, seconds))
    plain, probed = statistics.median(without), statistics.median(recorded)
    return {
        "without_ns": round(plain),
        "recorded_ns": round(probed),
        "ratio": round(probed / plain, 3),
        "pairs": pairs,
    }


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as name:
        directory = Path(name)
        client = build(directory)
        result = {
            "at_a_rate": at_a_rate(client, directory / "rate", seconds),
            "flat_out": interleaved(client, directory, seconds / 2, pairs),
        }
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
