"""What went unseen is told: to whom it happened, from when to when, and in each answer."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.conftest import SIM, Cgroup, Recording, command, record
from tests.kernel.script import Script, warm
from tests.kernel.told import compare

# Launches until it is told to stop, through a driver that nobody has mapped before.
EARLY = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"early")
launch(kernel, times=101)
say(early=101)
while not os.path.exists({enough!r}):
    launch(kernel)
"""
QUIET = """
context, module = start()
launch(out("cuModuleGetFunction", module, b"quiet"), times=211)
"""


def footer(recording: Recording, cgroup: Cgroup) -> tuple[str, str]:
    """What an answer about a tenant says below its rows, and on stderr."""
    code, said, complaints = command(
        "sql", "--store", recording.store,
        "select op, count(*) from cuda_events group by op", "--tenant", f"/{cgroup.name}",
    )  # fmt: skip
    assert code == 0, complaints
    return said.splitlines()[-1], complaints


def test_calls_before_the_probes_came_lie_in_a_hole_of_their_tenant(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    late, other = cgroups(), cgroups()
    place, enough, log = tmp_path / "place", tmp_path / "enough", tmp_path / "log"
    place.mkdir()
    # A file of its own, under a name that nobody looks for before it is mapped.
    shutil.copy(SIM / "libcuda.so.1", place / "engine.bin")
    (place / "libcuda.so.1").symlink_to("engine.bin")
    environment = {"LD_LIBRARY_PATH": str(place), "COTENANT_SIM_LOG": str(log)}
    with record(store, "--budget", "off") as recording:
        warm(recording, cgroups())
        os.kill(recording.helper(), signal.SIGSTOP)  # As a busy host does to it.
        try:
            early = Script(late, EARLY.format(enough=str(enough)), **environment)
            early.heard()
        finally:
            os.kill(recording.helper(), signal.SIGCONT)
        recording.wait_for("select 1 from sessions where libraries like '%/engine.bin%'")
        enough.touch()
        early.end()
        Script(other, QUIET).end()
        time.sleep(1.2)
    told = compare(store, f"cgroup_path = '/{late.name}'", [log])
    assert told.untold == ()
    assert told.calls == told.rows + told.inside
    assert told.rows > 0
    assert told.inside >= 101
    last, complaints = footer(recording, late)
    assert "complete" not in last
    # It loaded its module meanwhile, so nobody knows what its kernels are called.
    reasons = [line.rpartition("(")[2] for line in complaints.splitlines()]
    assert sorted(reasons) == ["kernels without a name)", "probes came late)"]
    assert "missing for" in recording.errors.read_text()
    last, complaints = footer(recording, other)
    assert last.endswith("complete)")
    assert complaints == ""
