"""NVIDIA's own driver libraries, as Debian and Ubuntu package them, fetched by name.

Branches 560, 565, 575, 590 and 610 are empty packages, which lead to the next branch.
"""

import subprocess
from functools import cache
from pathlib import Path

from tests.lacking import lacking

ROOT = Path(__file__).parents[1]
_SUITES = (
    "bullseye/non-free",
    "bookworm/non-free",
    "trixie/non-free",
    "experimental/non-free",
    "ubuntu:noble-updates/restricted",
    "ubuntu:plucky-updates/restricted",
    "ubuntu:stonking/restricted",
)
PACKAGES = {
    "450": "libnvidia-tesla-450-cuda1/bullseye",
    "460": "libnvidia-tesla-460-cuda1/bullseye",
    "470": "libcuda1/bullseye",
    "525": "libnvidia-tesla-cuda1/bookworm",
    "535": "libcuda1/bookworm",
    "550": "libcuda1/trixie",
    "555": "libcuda1/experimental",
    "570": "libnvidia-compute-570/plucky-updates",
    "580": "libnvidia-compute-580/noble-updates",
    "595": "libnvidia-compute-595/noble-updates",
    "615": "libnvidia-compute-615/stonking",
}


@cache
def _fetched() -> "subprocess.CompletedProcess[str]":
    command = [ROOT / "tools/apt_private.sh", *_SUITES, "--", *PACKAGES.values()]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


def real_driver(name: str) -> Path:
    """The library of one driver; where it cannot be had, the test is skipped."""
    found = real_drivers()
    if not found:
        said = _fetched().stderr.strip().splitlines() or ["?"]
        lacking("drivers", f"no driver libraries: {said[-1]}")
    return found[name]


@cache
def real_drivers() -> dict[str, Path]:
    """The library of each driver; none where they cannot be had."""
    done = _fetched()
    if done.returncode != 0:
        return {}
    found = {}
    for name, place in zip(PACKAGES, done.stdout.split(), strict=True):
        (found[name],) = (ROOT / place).rglob("libcuda.so.*.*")
        assert found[name].name.startswith(f"libcuda.so.{name}.")
    return found
