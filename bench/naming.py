"""How long a container's events go without its name: named_ns - created_ns, with real Docker.

usage: naming.py [--containers N]

Prints one JSON object. The aim is 95 % within 250 ms.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cotenant.query.engine.session import Session
from cotenant.sim.place import Docker

AIM_MS = 250


def record(store: Path, environment: dict[str, str], containers: int) -> None:
    """Start short containers one after the other while recording."""
    recorder = subprocess.Popen(
        [sys.executable, "-m", "cotenant", "record", "--store", str(store), "--quiet"],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert recorder.stderr is not None
    recorder.stderr.readline()
    for number in range(containers):
        subprocess.run(
            ["docker", "run", "--rm", "--network=none", "--name", f"short-{number}",
             "cotenant-demo-nothing", "/bin/sh", "-c", "true"],
            env={**os.environ, **environment}, check=True, capture_output=True,
        )  # fmt: skip
    recorder.terminate()
    recorder.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--containers", type=int, default=53)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cotenant-bench-") as directory:
        docker = Docker(Path(directory))
        try:
            docker.try_out()
            store = Path(directory) / "store"
            record(store, docker.environment, args.containers)
            with Session(store) as session:
                rows = session.ask(
                    "select (named_ns - created_ns) / 1e6 as ms from containers "
                    "where name like 'short-%' order by ms"
                ).rows()
        finally:
            docker.close()
    times = [row["ms"] for row in rows if row["ms"] is not None]
    print(
        json.dumps(
            {
                "bench": "naming",
                "containers": args.containers,
                "named": len(times),
                "median_ms": times[len(times) // 2] if times else None,
                "p95_ms": times[int(len(times) * 0.95)] if times else None,
                "within_aim": sum(ms <= AIM_MS for ms in times) / args.containers,
                "aim_ms": AIM_MS,
            }
        )
    )


if __name__ == "__main__":
    main()
