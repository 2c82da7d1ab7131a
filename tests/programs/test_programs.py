"""Programs of other languages, through libraries that nobody here wrote, on the stand-in GPU.

What each prints of itself equals its rows, and so does the stand-in's log.
"""

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.conftest import ROOT, Cgroup, record, sim_environment, truth
from tests.lacking import lacking

BUILT = ROOT / "build" / "programs"
ROWS = ("launch", "memcpy", "memset", "alloc", "free", "sync")


@dataclass(frozen=True)
class Program:
    """How a program is built below BUILT, and what starts it there."""

    name: str
    build: tuple[str, ...]
    start: tuple[str, ...]


PROGRAMS = (
    Program(
        "cudarc",
        ("cargo", "build", "--quiet", "--release"),
        ("target/release/launches",),
    ),
    Program(
        "jcuda",
        ("mvn", "--quiet", "--batch-mode", "package"),
        ("java", "-cp", "target/launches-1.jar:target/dependency/*", "Launches"),
    ),
)


def built(program: Program) -> Path:
    """The directory of the built program."""
    if shutil.which(program.build[0]) is None:
        lacking("programs", f"no {program.build[0]} here")
    place = BUILT / program.name
    shutil.copytree(Path(__file__).parent / program.name, place, dirs_exist_ok=True)
    subprocess.run(program.build, cwd=place, check=True)
    return place


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_its_own_count_equals_its_rows(
    program: Program, cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    place = built(program)
    log = tmp_path / "log"
    with record(store) as recording:
        process = cgroup.popen(program.start, cwd=place, env=sim_environment(log))
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        recording.stop()
    printed = json.loads(output)
    (launches,) = recording.sql(
        "select count(*) as n, min(kernel_name) as first, max(kernel_name) as last"
        f" from cuda_events where pid = {process.pid} and op = 'launch'"
    )
    assert launches == {
        "n": printed["launches"],
        "first": printed["kernel"],
        "last": printed["kernel"],
    }
    (copied,) = recording.sql(
        "select sum(bytes) as n from cuda_events"
        f" where pid = {process.pid} and op = 'memcpy' and direction = 'HtoD'"
    )
    assert copied["n"] == printed["HtoD"]
    rows = recording.sql(f"select op from cuda_events where pid = {process.pid}")
    calls = Counter(call["op"] for call in truth(log) if call.get("op") in ROWS)
    assert Counter(row["op"] for row in rows if row["op"] in ROWS) == calls
    assert sum(calls.values()) > printed["launches"]
