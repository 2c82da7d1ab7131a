"""NVIDIA's own driver libraries, as Debian packages them: fetched by name, kept in build/."""

import subprocess
from functools import cache
from pathlib import Path

from tests.lacking import lacking

ROOT = Path(__file__).parents[1]
_SUITES = ("bullseye", "bookworm", "trixie", "experimental")
PACKAGES = {
    "450": "libnvidia-tesla-450-cuda1/bullseye",
    "470": "libcuda1/bullseye",
    "525": "libnvidia-tesla-cuda1/bookworm",
    "535": "libcuda1/bookworm",
    "550": "libcuda1/trixie",
    "555": "libcuda1/experimental",
}


@cache
def _fetched() -> "subprocess.CompletedProcess[str]":
    suites = [f"{suite}/non-free" for suite in _SUITES]
    command = [ROOT / "tools/apt_private.sh", *suites, "--", *PACKAGES.values()]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)


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
