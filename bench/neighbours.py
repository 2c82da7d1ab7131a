"""What recording does to programs without a GPU: each with and without an agent, in alternation.

    python bench/neighbours.py [--pairs 8] [--others 2] [--only TEXT]

A tenant uses the stand-in GPU and does next to nothing. Beside it, in a cgroup of its own, each
program runs alone, with the default recording, and alone again. In every second round it also runs
with a recording without a budget, with bpftrace counting switches and messages by cgroup (the least
that can be done on these hooks), and with the peer whose command line is in INGERO. Of each round
the ratio of a speed to the mean of those alone is taken; the median is printed, with an interval
of 95 % from resampling. So it is with what was done in a second of CPU time of the cgroup: there,
what else the machine does has less of a part.
"""

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from typing import Any, NamedTuple

from agent import Agent, cpu_s, workload
from tenants import groups

RESAMPLES = 4000
GONE_S = 0.5  # Its probes are removed after it has ended.
SETTLED_S = 2  # What a recording finds when it begins is looked at by then.
COUNT = (
    "tracepoint:sched:sched_switch { @switches[cgroup] = count(); } "
    "tracepoint:sock:sock_send_length { @sent[cgroup] = count(); } "
    "tracepoint:sock:sock_recv_length { @received[cgroup] = count(); }"
)
THREADS = """
import threading
for _ in range(4000):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
"""
MAPPINGS = """
import mmap
for _ in range(30000):
    with mmap.mmap(-1, 8192) as memory:
        memory[0] = 1
"""
LOADER = """
from multiprocessing import Process, Queue, resource_tracker, shared_memory
BATCH, BATCHES, WORKERS = 1 << 20, 40, 8
def work(done, number):
    for batch in range(BATCHES):
        memory = shared_memory.SharedMemory(create=True, size=BATCH)
        memory.buf[:BATCH] = bytes([batch % 251]) * BATCH
        memory.close()
        done.put(memory.name)
# One for all: that of a worker would remove what it leaves.
resource_tracker.ensure_running()
done = Queue(16)
workers = [Process(target=work, args=(done, number)) for number in range(WORKERS)]
for worker in workers:
    worker.start()
for _ in range(BATCHES * WORKERS):
    memory = shared_memory.SharedMemory(done.get())
    sum(memory.buf[::4096])
    memory.close()
    memory.unlink()
for worker in workers:
    worker.join()
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 256; }}
http {{
  access_log off;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello"; }} }}
}}
"""
PORT = 20177


@dataclass(frozen=True)
class Program:
    """A program: its command, the server that it talks to, and where its speed stands."""

    name: str
    command: str  # With {folder} and {port}.
    server: str = ""
    speed: str = ""  # A pattern for its own figure; without one it is what it does in a second.


def folder_for_postgres(folder: Path) -> tuple[str, str]:
    """The directory of PostgreSQL's programs, and a cluster of our own."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return (str(places[-1]) if places else "", str(folder / "pg"))


AS_POSTGRES = "setpriv --reuid=postgres --regid=postgres --clear-groups"
PGBENCH = "{pg}/pgbench -h {folder} -p {port} -U postgres -n -c 4 -T 2"
PROGRAMS = (
    Program("hackbench, unix sockets", "hackbench -g 4 -l 300"),
    Program("hackbench, pipes", "hackbench -g 4 -p -T -l 600"),
    Program(
        "redis GET",
        "redis-benchmark -p {port} -t get -n 60000 -c 20 -q",
        "redis-server --port {port} --save ''",
    ),
    Program(
        "redis GET, pipelined",
        "redis-benchmark -p {port} -t get -n 600000 -c 20 -P 16 -q",
        "redis-server --port {port} --save ''",
    ),
    Program("pgbench -S", f"{PGBENCH} -S postgres", "postgres", r"tps = ([\d.]+)"),
    Program("pgbench, read and write", f"{PGBENCH} postgres", "postgres", r"tps = ([\d.]+)"),
    Program(
        "fio randread 4k direct",
        "fio --name=a --filename={folder}/file --size=64M --rw=randread --bs=4k --direct=1 "
        "--time_based --runtime=2 --output-format=terse",
        "",
        r"^3;(?:[^;]*;){6}(\d+);",
    ),
    Program("fork and exec", "sh -c 'i=0; while [ $i -lt 1200 ]; do /bin/true; i=$((i+1)); done'"),
    Program("threads", shlex.join([sys.executable, "-c", THREADS])),
    Program(
        "mutexes",
        "sysbench mutex --threads=4 --mutex-num=64 --mutex-locks=20000 --mutex-loops=1000 run",
    ),
    Program("mmap and page fault", shlex.join([sys.executable, "-c", MAPPINGS])),
    Program(
        "nginx under wrk",
        "wrk -t 1 -c 20 -d 2 http://127.0.0.1:{port}/",
        "nginx -p {folder} -c {folder}/nginx.conf",
        r"Requests/sec:\s+([\d.]+)",
    ),
    Program("a compiler", "gcc -O2 -c -o /dev/null {folder}/source.c"),
    Program("a data loader", shlex.join([sys.executable, "-c", LOADER])),
)


def entering(group: Path) -> Callable[[], object]:
    """Moves a new process into a cgroup."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


@contextlib.contextmanager
def started(
    words: list[str], enter: Callable[[], object] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A program in the background, which ends with the block."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, preexec_fn=enter)
    try:
        time.sleep(1)
        if process.poll() is not None:
            raise OSError(f"{words[0]} ended at once")
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@contextlib.contextmanager
def server(program: Program, folder: Path, group: Path) -> Iterator[dict[str, str]]:
    """What the command is filled in with, while its server runs."""
    enter = entering(group)
    pg, cluster = folder_for_postgres(folder)
    values = {"folder": str(folder), "port": str(PORT), "pg": pg}
    if not program.server:
        yield values
    elif program.server == "postgres":
        shutil.chown(folder, "postgres", "postgres")
        drop = shlex.split(AS_POSTGRES)
        if not Path(cluster).exists():
            subprocess.run([*drop, f"{pg}/initdb", "-D", cluster], check=True, capture_output=True)
        run = [*drop, f"{pg}/postgres", "-D", cluster, "-p", str(PORT), "-k", str(folder)]
        with started([*run, "-c", "listen_addresses="], enter):
            words = [f"{pg}/pgbench", "-h", str(folder), "-p", str(PORT), "-U", "postgres"]
            subprocess.run(
                [*words, "-i", "-q", "-s", "2", "postgres"], check=True, capture_output=True
            )
            yield values
    else:
        with started(shlex.split(program.server.format(**values)), enter):
            yield values


class Speed(NamedTuple):
    """How fast a program was."""

    wall: float
    cpu: float  # What it did in a second of CPU time, its server's included.


def cpu_of(group: Path) -> float:
    """Seconds of CPU time that a cgroup has used."""
    words = (group / "cpu.stat").read_text().split()
    return int(words[words.index("usage_usec") + 1]) / 1e6


def speed(program: Program, values: dict[str, str], group: Path) -> Speed:
    """Run it once."""
    filled = program.command
    for name, value in values.items():
        filled = filled.replace("{" + name + "}", value)
    words, enter = shlex.split(filled), entering(group)
    began, before = time.monotonic(), cpu_of(group)
    done = subprocess.run(words, capture_output=True, text=True, check=True, preexec_fn=enter)
    took, used = time.monotonic() - began, cpu_of(group) - before
    if not program.speed:
        return Speed(1 / took, 1 / used)
    found = re.search(program.speed, done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"{program.name}: no figure in {done.stdout[-300:]}")
    return Speed(float(found[1]), float(found[1]) * took / used)


Measured = tuple[Speed, float]  # And the part of a CPU of what it ran beside.
Measure = Callable[[], Speed]


def beside_agent(folder: Path, measure: Measure, *options: str) -> Measured:
    """With a recording of our own."""
    store = Path(tempfile.mkdtemp(dir=folder)) / "store"
    with Agent(store, "--quiet", *options) as agent:
        time.sleep(SETTLED_S)
        before, began = sum(map(cpu_s, agent.pids)), time.monotonic()
        found = measure()
        used = (sum(map(cpu_s, agent.pids)) - before) / (time.monotonic() - began)
    shutil.rmtree(store.parent)
    time.sleep(GONE_S)
    return found, used


def beside(words: list[str], measure: Measure) -> Measured:
    """With another program that watches."""
    with started(words) as process:
        before, began = cpu_s(process.pid), time.monotonic()
        return measure(), (cpu_s(process.pid) - before) / (time.monotonic() - began)


def variants(folder: Path) -> dict[str, Callable[[Measure], Measured]]:
    """Beside what each program runs, by name."""
    found: dict[str, Callable[[Measure], Measured]] = {
        "recorded": lambda measure: beside_agent(folder, measure),
        "budget_off": lambda measure: beside_agent(folder, measure, "--kernel-budget", "off"),
        "bpftrace": lambda measure: beside(["bpftrace", "-e", COUNT], measure),
    }
    if peer := os.environ.get("INGERO"):
        found["peer"] = lambda measure: beside(shlex.split(peer), measure)
    return found


def interval(ratios: list[float]) -> list[float]:
    """95 % of the medians of samples like this one."""
    dice = random.Random(7)
    medians = sorted(
        statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    return [round(medians[int(RESAMPLES * part)], 4) for part in (0.025, 0.975)]


def compare(program: Program, folder: Path, group: Path, pairs: int, others: int) -> dict[str, Any]:
    """One program under every condition, round by round."""
    conditions = variants(folder)
    ratios: dict[str, list[Speed]] = {name: [] for name in conditions}
    agents: dict[str, list[float]] = {name: [] for name in conditions}
    with server(program, folder, group) as values:

        def measure() -> Speed:
            return speed(program, values, group)

        measure()
        for turn in range(pairs):
            alone = measure()
            everything = others and turn % others == 0
            for name in conditions if everything else ["recorded"]:
                with contextlib.suppress(OSError):
                    found, used = conditions[name](measure)
                    agents[name].append(used)
                    # Alone before and after: a trend in the machine favours no condition.
                    alone, before = measure(), alone
                    mean = (sum(pair) / 2 for pair in zip(before, alone, strict=True))
                    ratios[name].append(Speed(*map(truediv, found, mean)))
    return {
        name: {
            "ratio": round(statistics.median(each.wall for each in found), 4),
            "interval": interval([each.wall for each in found]),
            "cpu_ratio": round(statistics.median(each.cpu for each in found), 4),
            "cpu_interval": interval([each.cpu for each in found]),
            "agent_cpu_share": round(statistics.median(agents[name]), 4),
            "pairs": len(found),
        }
        for name, found in ratios.items()
        if found
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument(
        "--others", type=int, default=2, help="one in so many rounds has all conditions; 0: none"
    )
    parser.add_argument("--only", default="", help="programs whose name contains this")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-neighbours-", dir="/var/tmp"))
    folder.chmod(0o755)
    source = "".join(f"int f{n}(int a){{return a*{n}+(a%{n + 1});}}\n" for n in range(150))
    (folder / "source.c").write_text(source)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=PORT))
    try:
        with groups(2) as (gpu, group):
            launches = ("launch", "--api", "driver", "--steps", "1000000", "--rate", "1")
            with workload(*launches, preexec_fn=entering(gpu)):
                found = {
                    program.name: compare(program, folder, group, args.pairs, args.others)
                    for program in PROGRAMS
                    if args.only in program.name
                }
                (gpu / "cgroup.kill").write_text("1")
        print(json.dumps({"bench": "neighbours", "pairs": args.pairs, "programs": found}, indent=1))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
