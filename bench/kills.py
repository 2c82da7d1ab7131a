"""Killed at random moments under load, again and again: is anything left, is anything torn?

    python bench/kills.py [--kills 100]

Each time: the store opens, rows end at most so long before the kill, and no BPF object of the
killed recorder is left in the kernel.
"""

import argparse
import contextlib
import json
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import Agent, workload

KINDS = ("link", "map", "prog")


def held(pids: list[int]) -> set[tuple[str, int]]:
    """BPF objects that processes have open."""
    found = set()
    for pid in pids:
        for info in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                for line in info.read_text().splitlines():
                    kind, _, number = line.partition("_id:")
                    if kind in KINDS:
                        found.add((kind, int(number)))
    return found


def in_kernel() -> set[tuple[str, int]]:
    """All BPF objects there are."""
    found = set()
    for kind in KINDS:
        listed = subprocess.run(["/usr/sbin/bpftool", "-j", kind], capture_output=True, check=False)
        found |= {(kind, each["id"]) for each in json.loads(listed.stdout or b"[]") if "id" in each}
    return found


def kill_once(store: Path, moment: float) -> tuple[float, int]:
    """Seconds of rows missing before the kill, and objects left behind."""
    with contextlib.suppress(subprocess.SubprocessError):
        agent = Agent(store, "--quiet")
        agent.__enter__()
        time.sleep(1 + moment)
        ours = held(agent.pids)
        killed_ns = time.time_ns()
        agent.process.kill()
        agent.process.wait()
        (last,) = agent.sql("select max(timestamp_ns) from cuda_events")[0]
        for _ in range(200):
            left = ours & in_kernel()
            if not left:
                break
            time.sleep(0.05)
        return (killed_ns - last) / 1e9, len(left)
    raise SystemExit("cannot record")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    args = parser.parse_args()
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="cotenant-kills-"))
    client = workload("launch", "--api", "driver", "--steps", "1000000000", "--rate", "5000")
    missing, left = [], 0
    try:
        for _ in range(args.kills):
            lack, objects = kill_once(folder / "store", moments.uniform(0, 1.5))
            missing.append(lack)
            left += objects
    finally:
        client.kill()
        client.communicate()
        shutil.rmtree(folder)
    result: dict[str, Any] = {
        "kills": args.kills,
        "seed": seed,
        "unreadable_stores": 0,
        "most_seconds_missing": round(max(missing), 3),
        "median_seconds_missing": round(sorted(missing)[len(missing) // 2], 3),
        "bpf_objects_left": left,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
