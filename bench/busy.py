"""Probes on a busy host: is each call of the demo a row, or within a hole that is told?

    python bench/busy.py [--demos 5] [--busy 12] [--seconds 8]

`cotenant demo` beside busy loops, several times. Each launch and each NCCL call in the tenants' own
logs must be a row, or lie in a hole of its tenant: from the mapping of a library to its probes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from rounds import busy

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kernel.told import Told, compare

FAMILIES = ("cuda", "nccl")


def demo(seconds: float) -> dict[str, Any]:
    """One demo: calls, rows, holes, and what no hole explains."""
    with tempfile.TemporaryDirectory(prefix="cotenant-busy-") as folder:
        store = Path(folder) / "store"
        words = [sys.executable, "-m", "cotenant", "demo", "--store", store, "--for", f"{seconds}s"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the demo failed: {done.stderr.strip()[-600:]}")
        logs = Path(f"{store}.sim") / "truth"
        found = [
            compare(store, f"tenant = '{tenant.name}'", tenant.glob("*.jsonl"), family)
            for tenant in sorted(logs.iterdir())
            for family in FAMILIES
        ]
    return _sum(found)


def _sum(found: list[Told]) -> dict[str, Any]:
    return {
        "calls": sum(one.calls for one in found),
        "rows": sum(one.rows for one in found),
        "in_holes": sum(one.inside for one in found),
        "untold": sum(len(one.untold) for one in found),
        "holes_s": [round((end - start) / 1e9, 3) for one in found for start, end in one.holes],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--demos", type=int, default=5)
    parser.add_argument("--busy", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=8)
    args = parser.parse_args()
    with busy(args.busy):
        demos = [demo(args.seconds) for _ in range(args.demos)]
    holes = [hole for one in demos for hole in one["holes_s"]] or [0.0]
    print(
        json.dumps(
            {
                "bench": "busy",
                "busy_loops": args.busy,
                "demos": demos,
                "untold": sum(one["untold"] for one in demos),
                "median_hole_s": round(median(holes), 3),
                "worst_hole_s": max(holes),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
