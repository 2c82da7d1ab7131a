"""A recorder that somebody has taken over can do nothing to others, nor learn about them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FOREIGN = """
import ctypes, sys
print(ctypes.cast(ctypes.CDLL(None).getenv, ctypes.c_void_p).value, flush=True)
sys.stdin.read()
"""


def start_ns(pid: int) -> int:
    """When a process started, as the kernel's records have it."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


@pytest.fixture(scope="module")
def foreign() -> Iterator[dict[str, Any]]:
    """A process that calls no GPU library; where one of its functions lies."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FOREIGN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "CUDA_MPS_PIPE_DIRECTORY": "/secret"},
        text=True,
    )
    assert process.stdout is not None
    function = int(process.stdout.readline())
    yield {"pid": process.pid, "start_ns": start_ns(process.pid), "function": function}
    process.kill()
    process.communicate()


def attack(store: Path, target: dict[str, Any]) -> dict[str, str]:
    """What a recorder that was taken over could do, by what it tried."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernel.taken_over", "--store", store],
        env={**os.environ, "TARGET": json.dumps(target)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def attempts(foreign: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one recorder that was taken over could do; its store lies where only root can go."""
    place = tmp_path_factory.mktemp("taken_over")
    secret = place / "secret"
    secret.write_text("precious")
    secret.chmod(0o600)
    found = attack(place / "store", {**foreign, "secret": str(secret)})
    assert secret.read_text() == "precious"
    assert not (place / "new").exists()
    return found


def test_the_helper_tells_nothing_about_a_process_that_called_no_library(
    attempts: dict[str, str], foreign: dict[str, Any]
) -> None:
    assert attempts["a foreign process's surroundings"] == "[False]"
    assert attempts["a foreign process's code"] == f"['unknown@?+{foreign['function']:#x}']"


def test_nothing_is_read_written_signalled_run_or_gained(attempts: dict[str, str]) -> None:
    tried = {what: came for what, came in attempts.items() if not what.startswith("a foreign")}
    assert len(tried) == 26
    assert {what: came for what, came in tried.items() if came.startswith("done")} == {}
    missing = {"import what is not there": "ModuleNotFoundError"}
    assert tried == dict.fromkeys(tried, "PermissionError") | missing
