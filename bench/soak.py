"""Does it stay small? Events at a rate, a new cgroup each second, and the agent's size over time.

python bench/soak.py [--minutes 60] [--rate 20000]
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import Agent, pss_kb, workload
from kills import held
from tenants import groups, start


def look(agent: Agent, began: float) -> dict[str, Any]:
    """The agent's size now."""
    objects = held(agent.pids)
    return {
        "seconds": round(time.monotonic() - began),
        "pss_mb": round(sum(map(pss_kb, agent.pids)) / 1024, 1),
        "fds": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in agent.pids),
        "links": sum(kind == "link" for kind, _ in objects),
        "maps": sum(kind == "map" for kind, _ in objects),
        "threads": sum(len(os.listdir(f"/proc/{pid}/task")) for pid in agent.pids),
        "cpu_s": round(agent.cpu_s, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=20_000)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-soak-"))
    sizes = []
    try:
        with Agent(folder / "store", "--quiet", "--max-bytes", "1g") as agent:
            words = ("launch", "--api", "driver", "--steps", "1000000000")
            client = workload(*words, "--rate", str(args.rate))
            began = time.monotonic()
            go = folder / "go"
            go.touch()
            while time.monotonic() - began < args.minutes * 60:
                tick = time.monotonic()
                with groups(1) as (group,):
                    short = start(group, 100, go)
                    time.sleep(0.5)
                    short.kill()
                    short.wait()
                if not sizes or time.monotonic() - began >= sizes[-1]["seconds"] + args.minutes:
                    sizes.append(look(agent, began))
                time.sleep(max(0, tick + 1 - time.monotonic()))
            sizes.append(look(agent, began))
            client.kill()
            client.communicate()
        lost = agent.sql("select sum(lost), sum(shed), sum(seen) from losses where family = 'cuda'")
        fate = dict(zip(("lost", "shed", "seen"), map(int, lost[0]), strict=True))
        print(json.dumps({"minutes": args.minutes, "fate": fate, "sizes": sizes}, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
