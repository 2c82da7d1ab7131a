"""Identity in a storm: programs that start without pause, and cgroups that are made meanwhile.

    python bench/births.py [--seconds 60]

Each new cgroup runs one program and is gone. All of them must be in ``containers``, and the forks,
execs and exits of the storm must be counted as often as it made them.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.agent import Agent
from bench.neighbours import entering
from bench.tenants import cgroup_root, groups
from tests.kernel.compiler import build_client

EVERY_S = 0.05
TOTALS = """
select function, sum(count)::bigint from totals join containers using (cgroup_id)
where family = 'host' and function in ('fork', 'exec', 'exit') and cgroup_path = '/{name}'
group by function
"""


def make_cgroups(until: float) -> list[str]:
    """One after the other, each with a program; their names."""
    made = []
    while time.monotonic() < until:
        group = Path(tempfile.mkdtemp(prefix="cotenant-births-", dir=cgroup_root()))
        subprocess.run(["/bin/true"], check=True, preexec_fn=entering(group))
        made.append(group.name)
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.01)
        time.sleep(EVERY_S)
    return made


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """What the storm did, and what of it is in the store."""
    client = build_client(folder / "storm", "storm")
    with groups(1) as (group,), Agent(folder / "store", "--quiet") as agent:
        storms = [
            subprocess.Popen(
                [str(client), "exec", str(seconds)],
                stdout=subprocess.PIPE,
                preexec_fn=entering(group),
            )
            for _ in range((os.cpu_count() or 1) + 1)
        ]
        made = make_cgroups(time.monotonic() + seconds)
        times = sum(int(storm.communicate()[0]) for storm in storms)
        time.sleep(2)
    named = {row[0] for row in agent.sql("select cgroup_path from containers")}
    counted = dict(agent.sql(TOTALS.format(name=group.name)))
    # The storms themselves were born elsewhere, became programs here, and ended.
    expected = {"fork": times, "exec": times + len(storms), "exit": times + len(storms)}
    notes = json.loads(agent.sql("select notes from sessions")[0][0])
    return {
        "bench": "births",
        "programs": times,
        "programs_per_s": round(times / seconds),
        "cgroups": len(made),
        "cgroups_missing": sum(f"/{name}" not in named for name in made),
        "counts_off": sum(abs(counted.get(what, 0) - n) for what, n in expected.items()),
        "facts_lost": notes.get("identity_lost", 0) + notes.get("fact_lost", 0),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-births-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        print(json.dumps(measure(folder, args.seconds), indent=1))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
