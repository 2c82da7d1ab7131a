"""What a recording takes while its tenants do nothing: memory of every kind, CPU, and its start.

    python bench/rest.py [--tenants 3,100,400] [--seconds 20]

Each tenant has the stand-in GPU open in a cgroup of its own, and waits. Memory is the PSS of all
processes of the recording, by process and kind, and all maps that their programs use. A ring that
a process has mapped is a map: its pages do not count again.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.agent import SIM, Agent, children, cpu_s, pss_kb
from bench.tenants import groups

SETTLED_S = 6  # Until the start is over, and what came with it is stored.
KERNELS = ("anon_inode:bpf-map", "anon_inode:[perf_event]")
HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ *(.*)$")


def tree(pid: int) -> Iterator[int]:
    """A process and all that came from it."""
    yield pid
    for child in children(pid):
        yield from tree(child)


def name(pid: int) -> str:
    """What a process of a recording is."""
    comm = Path(f"/proc/{pid}/comm").read_text().strip()
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    module = next((word for word in words if word.startswith("cotenant.")), "recorder")
    return comm if comm.startswith("cotenant-") else module.rpartition(".")[2]


def pss(pid: int, files: Counter[str]) -> dict[str, float]:
    """MiB of a process: its own, and its part of files; what is the kernel's does not count."""
    kinds: Counter[str] = Counter()
    where = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := HEAD.match(line):
            where = head[1]
        elif line.startswith("Pss:") and where not in KERNELS:
            kinds["all"] += int(line.split()[1])
            if where.startswith("/"):
                files[where.rsplit("/", 1)[-1]] += int(line.split()[1])
    own_kb = pss_kb(pid, "Pss_Anon")
    return {"own": round(own_kb / 1024, 2), "files": round((kinds["all"] - own_kb) / 1024, 2)}


def perf_buffers(pid: int) -> float:
    """MiB of buffers of perf events that a process has mapped."""
    total, where = 0, ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := HEAD.match(line):
            where = head[1]
        elif where == "anon_inode:[perf_event]" and line.startswith("Size:"):
            total += int(line.split()[1])
    return round(total / 1024, 2)


def ids(pids: list[int], field: str) -> set[int]:
    """Numbers of BPF maps or programs that processes hold."""
    found = set()
    for pid in pids:
        for info in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):  # Closed meanwhile.
                for line in info.read_text().splitlines():
                    if line.startswith(f"{field}:"):
                        found.add(int(line.split()[1]))
    return found


def bpftool(*words: str) -> list[dict[str, Any]]:
    """What it shows."""
    done = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def kernel_maps(pids: list[int]) -> list[dict[str, Any]]:
    """All maps that processes hold, or that programs of theirs use."""
    maps, programs = ids(pids, "map_id"), ids(pids, "prog_id")
    for program in bpftool("prog", "show"):
        if program["id"] in programs:
            maps.update(program.get("map_ids", ()))
    return [each for each in bpftool("map", "show") if each["id"] in maps]


def memory(pid: int) -> dict[str, Any]:
    """MiB that a recording has, in all and by part."""
    pids = list(tree(pid))
    files: Counter[str] = Counter()
    processes = {f"{name(each)} {each}": pss(each, files) for each in pids}
    maps = kernel_maps(pids)
    by_type: Counter[str] = Counter()
    for each in maps:
        by_type[each["type"]] += each["bytes_memlock"]
    largest = sorted(maps, key=lambda each: -int(each["bytes_memlock"]))[:24]
    parts = {
        "own": sum(each["own"] for each in processes.values()),
        "files": sum(each["files"] for each in processes.values()),
        "perf_buffers": sum(map(perf_buffers, pids)),
        **{f"map {kind}": total / (1 << 20) for kind, total in by_type.items()},
    }
    return {
        "total": round(sum(parts.values()), 1),
        "parts": {kind: round(size, 2) for kind, size in parts.items()},
        "processes": processes,
        "files": {path: round(kb / 1024, 2) for path, kb in files.most_common(24)},
        "maps": {each["name"]: round(each["bytes_memlock"] / (1 << 20), 2) for each in largest},
    }


def idle(group: Path) -> "subprocess.Popen[bytes]":
    """A tenant that has used its GPU once."""
    words = ("launch", "--api", "driver", "--steps", "2", "--rate", "0.0001")
    return subprocess.Popen(
        [str(SIM / "workload"), *words],
        env={**os.environ, "LD_LIBRARY_PATH": str(SIM), "COTENANT_SIM_DEVICE": group.name},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )


def cpu(pids: list[int]) -> dict[str, float]:
    """CPU time of processes so far."""
    return {f"{name(pid)} {pid}": cpu_s(pid) for pid in pids}


def measure(folder: Path, count: int, seconds: float, options: list[str]) -> dict[str, Any]:
    """A recording beside so many tenants."""
    with groups(count) as made:
        tenants = [idle(group) for group in made]
        time.sleep(1 + count / 20)
        try:
            with Agent(folder / f"store-{count}", "--quiet", *options) as agent:
                pid = agent.process.pid
                started = cpu(list(tree(pid)))
                time.sleep(SETTLED_S + count / 10)
                pids = list(tree(pid))
                before, began = cpu(pids), time.monotonic()
                time.sleep(seconds)
                took = time.monotonic() - began
                after = cpu(pids)
                found = memory(pid)
        finally:
            for tenant in tenants:
                tenant.kill()
            for tenant in tenants:
                tenant.wait()
    percent = {each: round(100 * (after[each] - before[each]) / took, 2) for each in after}
    return {
        "tenants": count,
        "mib": found,
        "cpu_percent": round(sum(percent.values()), 2),
        "cpu_percent_by_process": percent,
        "start_cpu_s": {each: round(used, 2) for each, used in started.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", default="3,100,400")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("options", nargs="*", help="of the recording, after --")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-rest-", dir="/var/tmp"))
    try:
        for count in map(int, args.tenants.split(",")):
            found = measure(folder, count, args.seconds, args.options)
            print(json.dumps({"bench": "rest", "cpus": os.cpu_count(), **found}, indent=1))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
