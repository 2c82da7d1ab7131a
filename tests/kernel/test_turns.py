"""The helper beside programs that start and end without pause: it sleeps, and misses nothing."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.compiler import build_client, build_library
from tests.kernel.conftest import Cgroup, Recording, record
from tests.kernel.script import Script
from tests.kernel.tenants import finish

TURNS_A_SECOND = 500
STORM_S = 4.0
IDENTITIES_S = 5.0
CGROUPS = 101
STORMS = 3


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_client(tmp_path_factory.mktemp("storm") / "storm", "storm")


def sleeps(recording: Recording) -> int:
    """How often the helper's loop went to sleep: for a turn, it sleeps and waits once each."""
    status = Path(f"/proc/{recording.helper()}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("voluntary_ctxt_switches"))
    return int(line.split()[1])


def interrupts() -> int:
    """Those by which the kernel wakes a reader of its buffers, on all CPUs."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    words = next(line.split() for line in lines if line.split()[0] == "IWI:")
    return sum(int(word) for word in words if word.isdigit())


@pytest.mark.parametrize("what", ["thread", "map"])
def test_a_storm_of_threads_or_mappings_is_not_interrupted_for_each(
    what: str, storm: Path, store: Path
) -> None:
    with record(store):
        before = interrupts()
        with subprocess.Popen([storm, what, str(STORM_S)], stdout=subprocess.PIPE) as busy:
            made = int(busy.communicate()[0])
        raised = interrupts() - before
    assert raised < made / 4


@pytest.mark.parametrize("what", ["thread", "fork", "exec", "map"])
def test_a_storm_of_processes_and_threads_has_few_turns_and_hides_no_library(
    what: str, storm: Path, cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    library = build_library(tmp_path / "brought" / "libcudart.so.12", ["cudaLaunchKernel"])
    mapped = f"ctypes.CDLL({str(library)!r})\nsay(ready=1)\nwait()\n"
    with record(store) as recording:
        with subprocess.Popen([storm, what, str(STORM_S)], stdout=subprocess.PIPE) as busy:
            time.sleep(STORM_S / 4)
            began, before = time.monotonic(), sleeps(recording)
            script = Script(cgroup, mapped)
            script.heard()
            recording.wait_probed(library)
            time.sleep(max(0.0, STORM_S / 2 - (time.monotonic() - began)))
            slept, seconds = sleeps(recording) - before, time.monotonic() - began
            made = int(busy.communicate()[0])
        script.go_on()
        script.end()
    assert made > 100
    assert slept <= 2 * TURNS_A_SECOND * seconds


def test_no_identity_is_lost_where_programs_start_without_pause(
    storm: Path, cgroups: Callable[[], Cgroup], store: Path
) -> None:
    busy = cgroups()
    with record(store) as recording:
        storms = [busy.popen([storm, "exec", IDENTITIES_S]) for _ in range(STORMS)]
        made = [cgroups() for _ in range(CGROUPS)]
        for cgroup in made:
            cgroup.popen(["/bin/true"]).communicate()
        times = sum(int(finish(one)) for one in storms)
        notes = json.loads(recording.wait_for("select notes from sessions")[0]["notes"])
    assert times > 100
    assert notes.get("identity_lost", 0) == notes.get("fact_lost", 0) == 0
    paths = {row["cgroup_path"] for row in recording.sql("select cgroup_path from containers")}
    assert {f"/{cgroup.name}" for cgroup in made} <= paths
    (counted,) = recording.sql(
        "select sum(count) filter (function = 'fork')::int as forks, "
        "sum(count) filter (function = 'exec')::int as execs, "
        "sum(count) filter (function = 'exit')::int as exits "
        "from totals join containers using (cgroup_id) "
        f"where family = 'host' and cgroup_path = '/{busy.name}'"
    )
    # The storms themselves were born elsewhere, became programs here, and ended.
    assert counted == {"forks": times, "execs": times + STORMS, "exits": times + STORMS}
