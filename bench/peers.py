"""A launch beside each recorder that is here: what it costs, and what each has of the launches.

    python bench/peers.py [--rounds 4]

Three tenants launch through the runtime, each 200,000 times in a loop and 4,000 times at one per
200 us; the third has its own copy of the libraries, as a container has. They run with nothing, with
our recorder (without a budget and by default), with bpftrace (a count, a histogram, a line for each
call), and with the peer whose command line is in INGERO, in turn. Medians of the rounds are
printed. Needs `tools/setup.sh bench`.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent import SIM, Agent, cpu_s
from neighbours import entering
from tenants import groups

CLIENT = Path(__file__).parent / "clients" / "tenant_launches.c"
LOOPED, PACED, TENANTS = 200_000, 4_000, 3
# What nobody waits for is on its way: probes of a new library, rows of the last second.
SETTLED_S = 3.0
SCRIPTS = {
    "bpftrace, a count": "uprobe:{lib}:cuLaunchKernel {{ @[cgroup] = count(); }}",
    "bpftrace, a histogram": (
        "uprobe:{lib}:cuLaunchKernel {{ @began[tid] = nsecs; }} "
        "uretprobe:{lib}:cuLaunchKernel /@began[tid]/ "
        "{{ @took[cgroup] = hist(nsecs - @began[tid]); delete(@began[tid]); }}"
    ),
    "bpftrace, a line a call": (
        "uprobe:{lib}:cuLaunchKernel {{ @began[tid] = nsecs; }} "
        "uretprobe:{lib}:cuLaunchKernel /@began[tid]/ "
        '{{ printf("%llu %d %d\\n", cgroup, tid, nsecs - @began[tid]); delete(@began[tid]); }}'
    ),
}


def built(folder: Path) -> Path:
    """The client."""
    program = folder / "tenant_launches"
    libraries = (f"-L{SIM}", "-l:libcudart.so.12", "-l:libcuda.so.1")
    subprocess.run(["gcc", "-O2", "-o", program, CLIENT, *libraries], check=True)
    return program


@contextlib.contextmanager
def clients(program: Path, folder: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """A tenant each, past its first launch; the last has libraries of its own."""
    own = folder / "own"
    with groups(TENANTS) as made:
        started = []
        for number, group in enumerate(made):
            environment = {
                **os.environ,
                "LD_LIBRARY_PATH": str(own if number == TENANTS - 1 else SIM),
                "COTENANT_SIM_DEVICE": group.name,
                "COTENANT_SIM_KERNEL_NS": "*=1",
            }
            started.append(
                subprocess.Popen(
                    [program, str(LOOPED), str(PACED)],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=entering(group),
                )
            )
        for client in started:
            answer(client)
        yield started
        for client in started:
            client.communicate()


def answer(client: "subprocess.Popen[str]") -> dict[str, float]:
    """The next line of a client."""
    assert client.stdout is not None
    return dict(json.loads(client.stdout.readline()))


def launches(program: Path, folder: Path) -> dict[str, float]:
    """What a launch took: all tenants' mean, one tenant after the other."""
    with clients(program, folder) as tenants:
        time.sleep(SETTLED_S)
        found = []
        for client in tenants:
            assert client.stdin is not None
            client.stdin.write("\n")
            client.stdin.flush()
            found.append(answer(client))
    return {name: statistics.mean(each[name] for each in found) for name in found[0]}


Run = Callable[[], dict[str, float]]


def recorded(folder: Path, run: Run, *options: str) -> dict[str, Any]:
    """Beside our recorder."""
    store = Path(tempfile.mkdtemp(dir=folder)) / "store"
    with Agent(store, "--quiet", *options) as agent:
        found = run()
        time.sleep(SETTLED_S)
        used = agent.cpu_s
    # Other programs of this machine may launch, too; only these launch `step`.
    (counted, rows, named, tenants) = agent.sql(
        "with launches as (from cuda_events where op = 'launch'), "
        "steps as (from launches where kernel_name like 'step(%') "
        "select sum(weight), count(*), (select sum(weight) from steps), "
        "count(distinct cgroup_id) from launches "
        "where cgroup_id in (select cgroup_id from steps)"
    )[0]
    size, stored = agent.bytes_of("cuda_events")
    shutil.rmtree(store.parent)
    return {
        **found,
        "cpu_s_per_million": used / (TENANTS * (LOOPED + PACED)) * 1e6,
        "launches": int(counted),
        "named": int(named or 0),
        "rows": int(rows),
        "tenants": int(tenants),
        "bytes_per_row": size / max(stored, 1),
    }


def beside(words: list[str], folder: Path, run: Run) -> dict[str, Any]:
    """Beside another recorder; a line that it prints for each launch is counted."""
    output = folder / "output"
    with output.open("wb") as stream:
        process = subprocess.Popen(words, stdout=stream, stderr=subprocess.DEVNULL)
        time.sleep(SETTLED_S)
        if process.poll() is not None:
            raise SystemExit(f"{words[0]} ended at once")
        found: dict[str, Any] = run()
        time.sleep(SETTLED_S)
        used = cpu_s(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    lines = sum(line.count(b" ") == 2 for line in output.read_bytes().splitlines())
    return {
        **found,
        "cpu_s_per_million": used / (TENANTS * (LOOPED + PACED)) * 1e6,
        "rows": lines if lines > LOOPED // 10 else 0,
    }


def conditions(folder: Path, run: Run) -> dict[str, Callable[[], dict[str, Any]]]:
    """What the tenants run beside, by name."""
    library = str(SIM / "libcuda.so.1")
    found: dict[str, Callable[[], dict[str, Any]]] = {
        "nothing": run,
        "cotenant, --budget off": lambda: recorded(folder, run, "--budget", "off"),
        "cotenant": lambda: recorded(folder, run),
    }
    for name, script in SCRIPTS.items():
        words = ["bpftrace", "-e", script.format(lib=library)]
        found[name] = lambda words=words: beside(words, folder, run)
    if peer := os.environ.get("INGERO"):
        found["the peer"] = lambda: beside(shlex.split(peer), folder, run)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-peers-", dir="/var/tmp"))
    try:
        program = built(folder)
        shutil.copytree(SIM, folder / "own")
        measured: dict[str, list[dict[str, Any]]] = {}
        for _ in range(args.rounds):
            for name, measure in conditions(folder, lambda: launches(program, folder)).items():
                measured.setdefault(name, []).append(measure())
    finally:
        shutil.rmtree(folder)
    found = {
        name: {key: round(statistics.median(one[key] for one in each), 3) for key in each[0]}
        for name, each in measured.items()
    }
    made = TENANTS * (LOOPED + PACED + 1)
    print(json.dumps({"made": made, "rounds": args.rounds, "beside": found}, indent=2))


if __name__ == "__main__":
    main()
