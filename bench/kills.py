"""Killed at random moments under load, again and again: is anything left, is anything torn?

    python bench/kills.py [--kills 100]

Each time: the store opens, rows end at most so long before the kill, and no BPF object of the
killed recorder is left in the kernel.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from agent import ROOT, Agent, workload

from cotenant.errors import StoreError

sys.path.insert(0, str(ROOT))
from tests.kernel.objects import KINDS, Object, held, in_kernel, listed


def told(left: set[Object]) -> list[str]:
    """Objects with their names, and who has them open."""
    names = {(kind, each["id"]): each.get("name", "") for kind in KINDS for each in listed(kind)}
    holders = [pid.name for pid in Path("/proc").glob("[0-9]*") if left & held([int(pid.name)])]
    found = [
        f"{kind} {number} {names.get((kind, number), 'gone')}" for kind, number in sorted(left)
    ]
    return [*found, f"held by {', '.join(holders) or 'no process'}"]


def kill_once(store: Path, moment: float) -> tuple[float | None, set[Object]]:
    """Seconds of recording that are missing, None if the store does not open; objects left."""
    agent = Agent(store, "--quiet")
    agent.__enter__()
    began_ns = time.time_ns()
    time.sleep(moment)
    ours = held(agent.pids)
    killed_ns = time.time_ns()
    agent.process.kill()
    agent.process.wait()
    for _ in range(200):
        left = ours & in_kernel()
        if not left:
            break
        time.sleep(0.05)
    try:
        (last,) = agent.sql("select max(timestamp_ns) from cuda_events")[0]
    except duckdb.CatalogException:
        last = None  # Killed before the first seal: the table has no segment yet.
    except (duckdb.Error, StoreError, ValueError):
        return None, left
    # Rows of an earlier round say nothing about this one.
    return (killed_ns - max(last or 0, began_ns)) / 1e9, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    args = parser.parse_args()
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="cotenant-kills-"))
    client = workload("launch", "--api", "driver", "--steps", "1000000000", "--rate", "5000")
    missing: list[float] = []
    left = unreadable = 0
    try:
        for _ in range(args.kills):
            lack, objects = kill_once(folder / "store", moments.uniform(0, 2.5))
            if objects:
                left += len(objects)
                print(f"left at {time.time():.1f}:", *told(objects), sep="\n  ", file=sys.stderr)
            if lack is None:
                unreadable += 1
            else:
                missing.append(lack)
    finally:
        client.kill()
        client.communicate()
        shutil.rmtree(folder)
    result: dict[str, Any] = {
        "kills": args.kills,
        "seed": seed,
        "unreadable_stores": unreadable,
        "most_seconds_missing": round(max(missing), 3),
        "median_seconds_missing": round(sorted(missing)[len(missing) // 2], 3),
        "bpf_objects_left": left,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
