"""What single kernel events cost a program without a GPU, with a recording and without, in turn.

    python bench/kernel_events.py [--pairs 9] [--seconds 1]

A program on one CPU does one thing again and again: sends and receives a byte over a Unix socket,
which is only counted; maps code; makes a thread, a child, or a child that runs /bin/true, and waits
until it has ended. Of each pair the difference of the times that one takes is kept; the
median is printed, with an interval of 95 % from resampling.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.agent import Agent, workload
from bench.neighbours import SETTLED_S, entering, interval
from bench.tenants import groups
from tests.kernel.compiler import build_client

MESSAGES = 2000  # Of the client's word: events each time.
WHAT = {"message": MESSAGES, "map": 1, "thread": 1, "fork": 1, "exec": 1}
CPU = "1"


def microseconds(client: Path, group: Path, seconds: float) -> dict[str, float]:
    """How long each takes."""
    found = {}
    for what, events in WHAT.items():
        words = ["taskset", "-c", CPU, str(client), what, str(seconds)]
        said = subprocess.run(
            words, capture_output=True, text=True, check=True, preexec_fn=entering(group)
        ).stdout
        found[what] = 1e6 * seconds / int(said) / events
    return found


def compare(folder: Path, pairs: int, seconds: float) -> dict[str, Any]:
    """Each with and without a recording."""
    client = build_client(folder / "storm", "storm")
    plain, recorded = [], []
    with groups(2) as (gpu, group):
        words = ("launch", "--api", "driver", "--steps", "1000000", "--rate", "1")
        with workload(*words, preexec_fn=entering(gpu)):
            for number in range(pairs):
                plain.append(microseconds(client, group, seconds))
                with Agent(folder / f"store-{number}", "--quiet"):
                    time.sleep(SETTLED_S)
                    recorded.append(microseconds(client, group, seconds))
            plain.append(microseconds(client, group, seconds))
            (gpu / "cgroup.kill").write_text("1")
    found = {}
    for what in WHAT:
        alone = [(a[what] + b[what]) / 2 for a, b in pairwise(plain)]
        dearer = [r[what] - a for r, a in zip(recorded, alone, strict=True)]
        found[what] = {
            "us": round(statistics.median(alone), 3),
            "dearer_us": round(statistics.median(dearer), 3),
            "interval": interval(dearer),
        }
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-kernel-events-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        found = compare(folder, args.pairs, args.seconds)
        print(json.dumps({"bench": "kernel_events", "pairs": args.pairs, "each": found}, indent=1))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
