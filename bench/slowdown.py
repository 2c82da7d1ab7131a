"""What recording costs the recorded: fixed work in a closed loop, with and without the agent.

    python bench/slowdown.py [--pairs 7] [--seconds 4]

Three tenants each launch, and between launches burn a fixed number of loops; the launching thread
is never idle. Runs without and with an agent take turns, so that what else happens on the machine
meets both alike. Of each pair the ratio is taken, of the wall time and of the processor time that
the tenants used; the medians are printed with their spread, and the ratio of the best runs of each
as a second opinion. Where pairs spread wider than the slowdown to be told, neither tells it.
Processor time tells what the probes themselves cost, wall time also what
the agent takes from tenants on a machine without a free CPU.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import Agent, workload

TENANTS = 3
SPINS_US = (50, 200, 1000)


def loops_for(spin_us: float) -> int:
    """Loops that take so long here, by the client's own measurement."""
    done = workload("launch", "--api", "driver", "--steps", "2000", "--spin-us", str(spin_us))
    out, _ = done.communicate()
    return int(json.loads(out)["spin_loops"])


def run(loops: int, steps: int) -> tuple[float, float]:
    """Wall and processor seconds of the work, all tenants together."""
    before = os.times()
    began = time.monotonic()
    words = ("launch", "--api", "driver", "--steps", str(steps), "--spin-loops", str(loops))
    clients = [workload(*words, device=f"bench-{n}") for n in range(TENANTS)]
    for client in clients:
        client.communicate()
    after = os.times()
    used = after.children_user + after.children_system
    return time.monotonic() - began, used - before.children_user - before.children_system


def compare(
    folder: Path, spin_us: float, pairs: int, seconds: float, *options: str
) -> dict[str, Any]:
    """Ratios of runs with and without the agent."""
    loops = loops_for(spin_us)
    steps = max(101, int(seconds * 1e6 / spin_us * min(1, (os.cpu_count() or 1) / TENANTS)))
    wall, cpu, agents = [], [], []
    best = {True: [float("inf")] * 2, False: [float("inf")] * 2}
    for pair in range(pairs):
        both = {}
        # Who is first changes, so that a trend in the machine favours nobody.
        for recorded in (False, True) if pair % 2 else (True, False):
            if recorded:
                with Agent(folder / f"store-{spin_us}-{pair}", "--quiet", *options) as agent:
                    both[True] = run(loops, steps)
                agents.append(agent.cpu_s / both[True][0])
            else:
                both[False] = run(loops, steps)
        for recorded, times in both.items():
            best[recorded] = [min(pair) for pair in zip(best[recorded], times, strict=True)]
        wall.append(both[True][0] / both[False][0])
        cpu.append(both[True][1] / both[False][1])
    return {
        "spin_us": spin_us,
        "launches_per_s_of_a_thread": round(1e6 / spin_us),
        "wall_ratio": round(statistics.median(wall), 4),
        "wall_ratio_range": [round(min(wall), 4), round(max(wall), 4)],
        "best_wall_ratio": round(best[True][0] / best[False][0], 4),
        "best_cpu_ratio": round(best[True][1] / best[False][1], 4),
        "cpu_ratio": round(statistics.median(cpu), 4),
        "cpu_ratio_range": [round(min(cpu), 4), round(max(cpu), 4)],
        "agent_cpu_share": round(statistics.median(agents), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--spins", type=float, nargs="*", default=SPINS_US)
    args, options = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-slowdown-"))
    try:
        found = [compare(folder, us, args.pairs, args.seconds, *options) for us in args.spins]
        print(json.dumps(found, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
