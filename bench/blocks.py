"""What probes cost a launching thread, told apart from what else happens on the machine.

    python bench/blocks.py [--seconds 30] [--layers driver both]

Beside an agent three tenants do the same work in short blocks, in turn through a function that is
probed and through a copy that is not; of each pair of neighbours the ratio is taken. Whatever slows
the machine for longer than a few milliseconds slows both alike, so that thousands of pairs tell
what a handful of long runs cannot. What the agent itself takes of the machine stands beside it.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from agent import Agent

SOURCE = Path(__file__).parent / "clients" / "blocks.c"
TENANTS = 3
SPINS_US = (50, 200, 1000)
BLOCK_US = 4000


def build(place: Path) -> Path:
    """The client beside its libraries."""
    driver, runtime = place / "libcuda.so.1", place / "libcudart.so.12"
    client = place / "blocks"
    flags = ["gcc", "-O1", "-fno-omit-frame-pointer", f"-Wl,-rpath,{place}", SOURCE]
    shared = ["-shared", "-fPIC"]
    subprocess.run(
        [*flags, *shared, "-DDRIVER", "-Wl,-soname,libcuda.so.1", "-o", driver], check=True
    )
    subprocess.run(
        [*flags, *shared, "-DRUNTIME", driver, "-Wl,-soname,libcudart.so.12", "-o", runtime],
        check=True,
    )
    subprocess.run([*flags, driver, runtime, "-o", client], check=True)
    return client


def middle(ratios: list[float], rounds: int = 400) -> tuple[float, list[float]]:
    """The median, and where it lies in 95 of 100 samples like this one."""
    drawn = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return statistics.median(ratios), [drawn[rounds // 40], drawn[-rounds // 40 - 1]]


def measure(folder: Path, client: Path, layer: str, spin_us: int, seconds: float) -> Any:
    """Ratios of probed to plain blocks with so much work before each launch."""
    a_us = int(subprocess.run([client, layer, "0"], capture_output=True, check=True).stdout)
    launches = max(1, BLOCK_US // spin_us)
    share = min(1, (os.cpu_count() or 1) / TENANTS)
    pairs = int(seconds * 1e6 * share / (2 * launches * spin_us))
    words = [str(client), layer, str(a_us * spin_us), str(launches), str(pairs)]
    with Agent(folder / f"store-{layer}-{spin_us}", "--quiet", "--layers", layer) as agent:
        clients = [
            subprocess.Popen([*words, str(random.getrandbits(63))], stdout=subprocess.PIPE)
            for _ in range(TENANTS)
        ]
        lines = [line for each in clients for line in each.communicate()[0].splitlines()]
    rows = [[int(word) for word in line.split()] for line in lines]
    ((stored,),) = agent.sql("select count(*) from cuda_events where comm = 'blocks'")
    cpu, cpu_range = middle([row[1] / row[3] for row in rows])
    wall, wall_range = middle([row[0] / row[2] for row in rows])
    return {
        "layer": layer,
        "spin_us": spin_us,
        "pairs": len(rows),
        "launches": len(rows) * launches,
        "launches_stored": stored,
        "cpu_ratio": round(cpu, 4),
        "cpu_ratio_95": [round(bound, 4) for bound in cpu_range],
        "wall_ratio": round(wall, 4),
        "wall_ratio_95": [round(bound, 4) for bound in wall_range],
        "ns_per_launch": round((cpu - 1) * spin_us * 1000),
        "agent_share_of_machine": round(agent.cpu_s / seconds / (os.cpu_count() or 1), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--spins", type=int, nargs="*", default=SPINS_US)
    parser.add_argument("--layers", nargs="*", default=("driver", "both"))
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-blocks-"))
    try:
        client = build(folder)
        chosen = [(layer, us) for layer in args.layers for us in args.spins]
        found = [measure(folder, client, *each, args.seconds) for each in chosen]
        print(json.dumps(found, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
