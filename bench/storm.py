"""One launching thread flat out: is every launch stored, and what does the agent pay for it?

python bench/storm.py [--seconds 30] [--api driver]
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import Agent, workload


def storm(store: Path, seconds: float, api: str, *options: str) -> dict[str, Any]:
    """Launch flat out beside a recording; what became of the launches."""
    with Agent(store, "--quiet", "--layers", "driver", *options) as agent:
        began = time.monotonic()
        client = workload("launch", "--api", api, "--steps", "1000000000")
        time.sleep(seconds)
        client.terminate()
        client.wait()
        took = time.monotonic() - began
    seen, stored, shed, lost = agent.sql(
        "select sum(seen), sum(stored), sum(shed), sum(lost) from losses where family = 'cuda'"
    )[0]
    (events,) = agent.sql("select sum(stored) from losses")[0]
    size, rows = agent.bytes_of("cuda_events")
    return {
        "seconds": round(took, 1),
        "seen": int(seen),
        "stored": int(stored),
        "shed": int(shed),
        "lost": int(lost),
        "rows_in_store": rows,
        "calls_per_s": round(seen / took),
        "agent_cpu_s": round(agent.cpu_s, 2),
        "events_of_all_families": int(events),
        "agent_cpu_s_per_million": round(agent.cpu_s / events * 1e6, 3),
        "agent_peak_pss_mb": round(agent.peak_pss_kb / 1024, 1),
        "bytes_per_event": round(size / max(rows, 1), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--api", default="driver")
    args, options = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-storm-"))
    try:
        print(json.dumps(storm(folder / "store", args.seconds, args.api, *options), indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
