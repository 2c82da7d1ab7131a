"""Run every stage of the tests, then each failed test once more by itself.

A stage that fails keeps no other from running. A test that passes the second time is printed as
``FLAKY`` and does not fail the run.

usage: suite.py
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

BUILD: Final = Path("build/suite")
# More failures than this are a fault, not chance.
RETRIED_MAX: Final = 20
TESTS_FAILED: Final = 1  # Exit code of pytest.
PYTEST: Final = (sys.executable, "-m", "pytest", "-q")
SIDE_BY_SIDE: Final = ("-n", "2", "--dist", "worksteal")


@dataclass(frozen=True)
class Stage:
    """Tests that are run in one go."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self) -> list[str] | None:
        """Which tests failed; None if pytest itself did."""
        cache = BUILD / self.name
        shutil.rmtree(cache, ignore_errors=True)
        code = self._pytest("-o", f"cache_dir={cache}", *self.arguments)
        if code == 0:
            return []
        listed = cache / "v" / "cache" / "lastfailed"
        if code != TESTS_FAILED or not listed.exists():
            return None
        return list(json.loads(listed.read_text()))

    def passes(self, test: str) -> bool:
        """Whether one test passes by itself."""
        return self._pytest("-p", "no:cacheprovider", test) == 0

    def _pytest(self, *arguments: str) -> int:
        environment = os.environ | {"COTENANT_SKIPS": "listed"} | self.environment
        return subprocess.run([*PYTEST, *arguments], env=environment, check=False).returncode


# Folders that have a stage, or a verb of the Makefile, of their own.
APART: Final = ("kernel", "browser", "image", "package", "programs", "spark", "readers")
STAGES: Final = (
    # One at a time: a recording has what the whole host does.
    Stage("kernel", ("tests/kernel",), {"COTENANT_REQUIRE_KERNEL": "1"}),
    Stage("unit", (*SIDE_BY_SIDE, "tests", *(f"--ignore=tests/{name}" for name in APART))),
    # A browser's event loop is its own process's.
    Stage("browser", (*SIDE_BY_SIDE, "tests/browser")),
)


def lint() -> bool:
    """Whether ``make lint`` passes."""
    return subprocess.run(["make", "--no-print-directory", "lint"], check=False).returncode == 0


def run(stages: Sequence[Stage]) -> int:
    """Run all; 1 if something fails twice, or cannot be run."""
    broken = [] if lint() else ["lint"]
    failed: list[tuple[Stage, str]] = []
    for stage in stages:
        tests = stage.run()
        if tests is None:
            broken.append(stage.name)
        else:
            failed += [(stage, test) for test in tests]
    if len(failed) > RETRIED_MAX:
        broken.append(f"{len(failed)} tests")
        failed = []
    for stage, test in failed:
        passes = stage.passes(test)
        if passes:
            print(f"FLAKY {test}", flush=True)
        else:
            broken.append(test)
    print("".join(f"FAILED {name}\n" for name in broken), end="", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(run(STAGES))
