"""Does it stay small? Events at a rate, a new container each second, the agent's size meanwhile.

    python bench/soak.py [--minutes 60] [--rate 20000]

Each container is a real one, with a library of its own that nobody has seen before, and makes a
known number of calls as soon as it runs: how many of them are in the store at
the end says whether the probes came before them.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import ROOT, SIM, Agent, own_kb, pss_kb
from tenants import groups, start

sys.path.insert(0, str(ROOT))
from tests.kernel.containers import (
    CGROUPS,
    PLACE,
    Container,
    brief_root,
    copy_needed,
    runc_cgroups,
)
from tests.kernel.objects import held

TENANTS = 2  # One thread at the whole rate would be near its budget.
CALLS = 101
GAP_US = 490


def look(agent: Agent, began: float, containers: int) -> dict[str, Any]:
    """The agent's size now."""
    objects = held(agent.pids)
    return {
        "seconds": round(time.monotonic() - began),
        "containers": containers,
        "pss_mb": round(sum(map(pss_kb, agent.pids)) / 1024, 1),
        "own_mb": round(sum(map(own_kb, agent.pids)) / 1024, 1),
        "fds": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in agent.pids),
        "links": sum(kind == "link" for kind, _ in objects),
        "maps": sum(kind == "map" for kind, _ in objects),
        "threads": sum(len(os.listdir(f"/proc/{pid}/task")) for pid in agent.pids),
        "cpu_s": round(agent.cpu_s, 1),
    }


def contained(folder: Path, base: Path) -> None:
    """One container from its start to its end."""
    container = Container(base, folder / "container")
    container.add(SIM / "libcuda.so.1", f"{PLACE}/libcuda.so.1")
    container.run("/brief", "/log/calls", str(CALLS), str(GAP_US))
    shutil.rmtree(folder / "container")


def soak(folder: Path, agent: Agent, minutes: float) -> tuple[int, list[dict[str, Any]]]:
    """A container each second; how many there were, and the agent's size along the way."""
    base = brief_root(folder / "base")
    copy_needed(base, SIM / "libcuda.so.1")
    sizes: list[dict[str, Any]] = []
    began, containers = time.monotonic(), 0
    with runc_cgroups():
        while time.monotonic() - began < minutes * 60:
            tick = time.monotonic()
            contained(folder, base)
            containers += 1
            if not sizes or time.monotonic() - began >= sizes[-1]["seconds"] + minutes:
                sizes.append(look(agent, began, containers))
                print(json.dumps(sizes[-1]), file=sys.stderr, flush=True)
            time.sleep(max(0, tick + 1 - time.monotonic()))
        time.sleep(5)  # What the last one had is let go.
        sizes.append(look(agent, began, containers))
    return containers, sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20_000)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-soak-"))
    try:
        with Agent(folder / "store", "--quiet", "--max-bytes", "2g") as agent:
            go = folder / "go"
            go.touch()
            with groups(TENANTS) as tenants:
                clients = [start(group, args.rate / TENANTS, go) for group in tenants]
                containers, sizes = soak(folder, agent, args.minutes)
                for client in clients:
                    client.kill()
                    client.wait()
        names = "|".join([CGROUPS, *(group.name for group in tenants)])
        fates = agent.sql(
            "select reason, sum(seen)::bigint, sum(shed)::bigint, sum(lost)::bigint from losses "
            "join containers using (cgroup_id) where family = 'cuda' "
            f"and regexp_matches(cgroup_path, '{names}') group by reason order by reason"
        )
        ((stored,),) = agent.sql(
            "select count(*) from cuda_events join containers using (cgroup_id) "
            f"where cgroup_path like '%{CGROUPS}%'"
        )
        result = {
            "minutes": args.minutes,
            "containers": containers,
            "calls_made_in_containers": containers * CALLS,
            "calls_stored_of_them": stored,
            "fate": [dict(zip(("reason", "seen", "shed", "lost"), f, strict=True)) for f in fates],
            "sizes": sizes,
        }
        print(json.dumps(result, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
