"""Runs a story of the stand-in GPU to its end."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from cotenant import sim
from cotenant.errors import CotenantError


def run(
    workload: str, arguments: Sequence[str] = (), *, extra: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The exact counts that it reports."""
    line = sim.command(workload, arguments)
    environment = sim.environment(extra)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CotenantError(f"{' '.join(line)} failed: {done.stderr.strip()}")
    counts: dict[str, Any] = json.loads(done.stdout)
    return counts
