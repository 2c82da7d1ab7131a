"""How the agent's cost grows with the number of tenants, at one rate of events in all.

python bench/tenants.py [--seconds 8] [--rate 4000]
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent import SIM, Agent

COUNTS = (1, 10, 100, 500)
LAUNCH = ("launch", "--api", "driver", "--steps", "100000000")


def cgroup_root() -> Path:
    """Where cgroup v2 is mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return Path(next(m[1] for m in mounts if m[2] == "cgroup2"))


@contextlib.contextmanager
def groups(count: int) -> Iterator[list[Path]]:
    """Fresh cgroups, gone afterwards with whoever is in them."""
    root = cgroup_root()
    made = [Path(tempfile.mkdtemp(prefix="cotenant-bench-", dir=root)) for _ in range(count)]
    try:
        yield made
    finally:
        for group in made:
            (group / "cgroup.kill").write_text("1")
        for group in made:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.02)


def start(group: Path, rate: float, place: Path) -> "subprocess.Popen[bytes]":
    """A tenant that launches at a rate until it is killed."""
    return subprocess.Popen(
        [str(SIM / "workload"), *LAUNCH, "--rate", str(rate), "--start-on", str(place)],
        env={**os.environ, "LD_LIBRARY_PATH": str(SIM), "COTENANT_SIM_DEVICE": group.name},
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )


def measure(folder: Path, count: int, seconds: float, rate: float) -> dict[str, Any]:
    """Cost with so many tenants that share the rate."""
    go = folder / f"go-{count}"
    with groups(count) as made, Agent(folder / f"store-{count}", "--quiet") as agent:
        clients = [start(group, rate / count, go) for group in made]
        time.sleep(1 + count / 50)
        before = agent.cpu_s
        go.touch()
        time.sleep(seconds)
        used = agent.cpu_s - before
        for client in clients:
            client.kill()
        for client in clients:
            client.wait()
    seen, tenants = agent.sql(
        "select sum(stored), count(distinct cgroup_id) from losses where family = 'cuda'"
    )[0]
    return {
        "tenants": count,
        "tenants_recorded": int(tenants),
        "events": int(seen),
        "agent_cpu_share": round(used / seconds, 4),
        "agent_peak_pss_mb": round(agent.peak_pss_kb / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float, default=4000)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-tenants-"))
    try:
        print(json.dumps([measure(folder, n, args.seconds, args.rate) for n in COUNTS], indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
