"""One tenant calls more than its probes may cost: nobody else's calls go unseen for it."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernel.conftest import SIM, Cgroup, Recording, command, record, sim_environment, truth
from tests.kernel.script import Script
from tests.kernel.test_overload import (
    ENDLESS,
    WORKLOAD,
    counted,
    fate,
    finish,
    notes,
    rows_of,
    start,
    warm,
)

_HOLE = (
    "select 1 from (from losses where reason = 'over budget' and seen + shed = 0) "
    "join containers using (cgroup_id)"
)


def storms(recording: Recording) -> list[str]:
    """Who called what too often, as sessions tells it so far."""
    return [news["who"] for news in notes(recording).get("budget_storms", [])]


def wait_for_storm(recording: Recording, cgroup: Cgroup, times: int = 1) -> None:
    """Until a tenant has been a storm for longer than the patience."""
    deadline = time.monotonic() + 60
    while storms(recording).count(f"cuLaunchKernel by /{cgroup.name}") < times:
        assert time.monotonic() < deadline, notes(recording)
        time.sleep(0.2)


def holes(recording: Recording, cgroup: Cgroup, reason: str = "over budget") -> list[Any]:
    """A tenant's blind spans, in the order of time."""
    return recording.sql(
        "select from_ns, to_ns from losses join containers using (cgroup_id) "
        f"where cgroup_path = '/{cgroup.name}' and reason = '{reason}' "
        "and family = 'cuda' and seen + lost + shed = 0 and from_ns is not null order by from_ns"
    )


def footer(recording: Recording, cgroup: Cgroup) -> tuple[str, str]:
    """What an answer about a tenant says below its rows, and what on stderr."""
    code, said, complaints = command(
        "ask", "launch_rate", "--store", recording.store, "--tenant", f"/{cgroup.name}"
    )
    assert code == 0, complaints
    return said.splitlines()[-1], complaints


def end(process: "subprocess.Popen[str]") -> None:
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=60)


def test_a_storm_on_a_driver_that_others_map_costs_them_nothing_and_is_counted(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, neighbour, before = cgroups(), cgroups(), cgroups()
    log = tmp_path / "log"
    with record(store, "--budget-rest", "2s") as recording:
        warm(recording, before)
        # Is there, and calls nothing while the storm rages.
        there = Script(neighbour, "say(ready=1)\nwait()\n")
        there.heard()
        loud = start(storm, "--steps", str(ENDLESS))
        wait_for_storm(recording, storm)
        time.sleep(2)
        finish(start(neighbour, "--steps", "5003", "--rate", "5000", log=log))
        end(loud)
        there.go_on()
        there.end()
    launches = sum(call["op"] == "launch" for call in truth(log))
    assert launches == 5003
    assert rows_of(recording, neighbour) == {"rows": 5003, "weight": 5003}
    assert counted(recording, neighbour) == 5003
    assert holes(recording, neighbour) == holes(recording, storm) == []
    last, complaints = footer(recording, neighbour)
    assert last.endswith("complete)")
    assert complaints == ""
    # The storm's own calls are all counted; its rows are few, and its answers say so.
    what = fate(recording, storm)
    assert what["shed"] > what["stored"] > 0
    assert what["seen"] == what["stored"] + what["shed"] + what["lost"]
    (others,) = recording.sql(
        "select count(*) as n from cuda_events join containers using (cgroup_id) "
        f"where op <> 'launch' and cgroup_path = '/{storm.name}'"
    )
    assert counted(recording, storm) == what["seen"] - others["n"]
    last, complaints = footer(recording, storm)
    assert "complete" not in last
    assert "have no row of their own" in complaints


# Times each of its launches by two events; the first record says that it will.
TIMES = """
from ctypes import c_float
context, module = start()
kernel, stream = out("cuModuleGetFunction", module, b"timed"), out("cuStreamCreate", 1)
call("cuEventRecord", out("cuEventCreate", 0), c_void_p(stream))
for _ in range(13):
    before, after, ms = out("cuEventCreate", 0), out("cuEventCreate", 0), c_float()
    call("cuEventRecord", before, c_void_p(stream))
    launch(kernel, stream)
    call("cuEventRecord", after, c_void_p(stream))
    call("cuEventSynchronize", after)
    call("cuEventElapsedTime", byref(ms), before, after)
"""


def test_a_storm_on_its_own_driver_loses_its_probes_for_a_while(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, neighbour, later, before, timer = (cgroups() for _ in range(5))
    place, log = tmp_path / "place", tmp_path / "log"
    place.mkdir()
    shutil.copy(SIM / "libcuda.so.1", place)
    own = {"LD_LIBRARY_PATH": str(place)}
    with record(store, "--budget-rest", "3s") as recording:
        warm(recording, before)
        words = [WORKLOAD, "launch", "--api", "driver", "--steps"]
        loud = storm.popen([*words, ENDLESS], env=sim_environment(**own), stderr=subprocess.PIPE)
        wait_for_storm(recording, storm)
        recording.wait_for(f"{_HOLE} where cgroup_path = '/{storm.name}'")
        finish(start(neighbour, "--steps", "5003", "--rate", "5000", log=log))
        Script(timer, TIMES).end()
        # Somebody else maps the very file: its probes come back at once.
        finish(later.popen([*words, "211"], env=sim_environment(**own), stderr=subprocess.PIPE))
        end(loud)
    assert rows_of(recording, neighbour) == {"rows": 5003, "weight": 5003}
    assert counted(recording, neighbour) == 5003
    assert holes(recording, neighbour) == []
    assert rows_of(recording, later) == {"rows": 211, "weight": 211}
    (timed,) = recording.sql(
        "select count(gpu_ns)::int as n from cuda_events join containers using (cgroup_id) "
        f"where op = 'launch' and cgroup_path = '/{timer.name}'"
    )
    assert timed == {"n": 13}
    blind = holes(recording, storm)
    assert sum(hole["to_ns"] - hole["from_ns"] for hole in blind) > 500_000_000
    last, complaints = footer(recording, storm)
    assert "complete" not in last
    assert "(over budget)" in complaints
    assert "(over budget)" not in footer(recording, neighbour)[1]
    assert "imbalance" not in notes(recording)
