"""Some of ``tests/kernel`` in the guest."""

import os
import subprocess
from typing import Any, Final

from vm import ROOT

# What needs neither a container daemon nor a fast machine.
_FILES: Final = ("test_rejection.py", "test_stacks.py", "test_privileges.py", "test_in_flight.py")


def run(job: dict[str, Any]) -> dict[str, Any]:
    """The exit code of pytest, and its last words."""
    files = [f"tests/kernel/{name}" for name in job.get("tests_files", _FILES)]
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--timeout=1200", *files],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "COTENANT_REQUIRE_KERNEL": "1", "COTENANT_PATIENCE": "20"},
    )  # fmt: skip
    return {"code": done.returncode, "said": done.stdout[-6000:]}
