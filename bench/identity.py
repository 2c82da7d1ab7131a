"""Three tenants, one of which storms: what becomes of each of 100 million launches?

    python bench/identity.py [--calls 100000007] [OPTION OF RECORD ...]

Once without a budget, where each becomes a row, and once with the default one, where the storm is
counted. Each tenant counts its own launches. By tenant, the kernel must have seen as many, each of
them stored, shed or lost; stored rows must be in the store; totals must count each; and the two
that do not storm must have every row.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from agent import Agent, workload
from tenants import groups

LAUNCH = "cuLaunchKernel"
# The last launches come after the storm: as long as a neighbour is there, nobody's probes rest.
STEADY = {"--steps": 100_003, "--rate": 997, "--pause-after": 99_991}
BUDGETS = {"off": ("--budget", "off"), "default": ()}


def start(group: Path, go: Path, options: dict[str, Any]) -> Any:
    """A tenant in a cgroup of its own that launches once it may."""
    words = [str(word) for option in options.items() for word in option]
    return workload(
        "launch", "--api", "driver", *words, "--start-on", str(go),
        device=group.name,
        preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())),
    )  # fmt: skip


def became(agent: Agent, group: Path) -> dict[str, int]:
    """Of the launches in a cgroup: what was counted, and what is there."""
    mine = f"cgroup_id = (select cgroup_id from containers where cgroup_path = '/{group.name}')"
    losses = (
        "select sum(seen)::bigint, sum(stored)::bigint, sum(shed)::bigint, sum(lost)::bigint "
        f"from losses where family = 'cuda' and {mine}"
    )
    (found,) = agent.sql(losses)
    of_rows = f"count(*), count(*) filter (api = '{LAUNCH}')"
    (rows,) = agent.sql(f"select {of_rows} from cuda_events where {mine}")
    (total,) = agent.sql(
        f"select sum(t.count)::bigint from totals t where function = '{LAUNCH}' and {mine}"
    )
    names = ("seen", "stored", "shed", "lost", "rows", "launch_rows", "launches_in_totals")
    return dict(zip(names, (*found, *rows, *total), strict=True))


def judged(made: int, found: dict[str, int]) -> dict[str, Any]:
    """With what does not add up: zeros where all does."""
    off = {
        "off_sum": found["seen"] - found["stored"] - found["shed"] - found["lost"],
        "off_rows": found["rows"] - found["stored"],
        "off_totals": found["launches_in_totals"] - made,
    }
    return {"launches": made, **found, **off}


def identity(folder: Path, calls: int, *options: str) -> dict[str, Any]:
    """One recording of all three."""
    folder.mkdir()
    go, over = folder / "go", folder / "over"
    with groups(3) as made:
        with Agent(folder / "store", "--quiet", *options) as agent:
            stormy = start(made[0], go, {"--steps": calls})
            steady = [start(group, go, {**STEADY, "--resume-on": over}) for group in made[1:]]
            time.sleep(3)
            go.touch()
            began = time.monotonic()
            stormy.wait()
            took = time.monotonic() - began
            over.touch()
            own = [json.loads(c.communicate()[0])["calls"] for c in (stormy, *steady)]
        tenants = [
            judged(calls[LAUNCH], became(agent, group))
            for calls, group in zip(own, made, strict=True)
        ]
    return {
        "tenants": tenants,
        "launches": sum(t["launches"] for t in tenants),
        "off": sum(abs(t[key]) for t in tenants for key in t if key.startswith("off_")),
        "neighbours_lack": sum(t["launches"] - t["launch_rows"] for t in tenants[1:]),
        "seconds": round(took, 1),
        "agent_cpu_s": round(agent.cpu_s, 2),
        "agent_peak_pss_mb": round(agent.peak_pss_kb / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=100_000_007)
    args, options = parser.parse_known_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-identity-"))
    try:
        found = {
            name: identity(folder / name, args.calls, *budget, *options)
            for name, budget in BUDGETS.items()
        }
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
