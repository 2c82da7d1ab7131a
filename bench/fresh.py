"""How old the newest row is that another process sees while a host is recorded.

usage: fresh.py [--readers N ...] [--seconds S]

A tenant launches 1,000 times a second; readers, each a process of its own, ask for its newest row
over and over. The age of the newest row at the moment of an answer is how late rows come. Prints
one JSON array, an object per number of readers. The aim is 2 s at most.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent import Agent, workload

from cotenant.query.engine.session import Session

AIM_S = 2.0
PAUSE_S = 0.1


def read(store: Path, seconds: float) -> None:
    """A reader: prints ages in seconds, once rows come at all."""
    end, ages = time.monotonic() + seconds, []
    with Session(store) as session:
        while time.monotonic() < end:
            (row,) = session.ask("select max(timestamp_ns) as t from cuda_events").rows()
            if row["t"] is not None:
                ages.append((time.time_ns() - row["t"]) / 1e9)
            time.sleep(PAUSE_S)
    print(json.dumps(ages))


def measure(readers: int, seconds: float) -> dict[str, object]:
    """Ages that so many readers saw."""
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as directory:
        store = Path(directory) / "store"
        with Agent(store, "--quiet"):
            steps = int((seconds + 8) * 1000)
            tenant = workload("launch", "--api", "driver", "--steps", str(steps), "--rate", "1000")
            time.sleep(3)
            words = [sys.executable, __file__, "--read", str(store), "--seconds", str(seconds)]
            asking = [
                subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(readers)
            ]
            ages = sorted(age for each in asking for age in json.loads(each.communicate()[0]))
            tenant.terminate()
            tenant.wait()
    return {
        "bench": "fresh",
        "readers": readers,
        "answers": len(ages),
        "median_s": round(ages[len(ages) // 2], 3),
        "p99_s": round(ages[int(len(ages) * 0.99)], 3),
        "max_s": round(ages[-1], 3),
        "aim_s": AIM_S,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        read(args.read, args.seconds)
        return
    print(json.dumps([measure(readers, args.seconds) for readers in args.readers], indent=1))


if __name__ == "__main__":
    main()
