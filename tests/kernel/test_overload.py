"""More events than the ring takes: rows are shed by tenant, counts stay exact, all adds up."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernel.conftest import ROOT, SIM, Cgroup, Recording, record, sim_environment, truth
from tests.kernel.script import Script
from tests.kernel.tenants import finish as ended
from tests.kernel.tenants import python

WORKLOAD = SIM / "workload"
SMALL_RING = ("--ring-bytes", "65536")
# A kind of kernel event has a small part of a ring: of this one, some 30 rows of each tenant. Of
# calls, a tenant's part lasts for 0.2 s of a thousand rows each.
MIDDLE_RING = ("--ring-bytes", "262144")
LAUNCHES = 60_013
MANY = 400_009
ENDLESS = 1_000_000_007
READS = 251
SWITCHES = ROOT / "bench" / "clients" / "switches.c"

# One block request and one send each time; the page cache has no part in it.
AT_LEISURE = """
import mmap, os, socket, time
room = mmap.mmap(-1, 4096)
disk = os.open({file!r}, os.O_RDONLY | os.O_DIRECT)
here, there = socket.socketpair()
done = 0
for at in range({reads}):
    done += os.preadv(disk, [room], at * 4096) == 4096 and here.send(b"7 bytes") == 7
    time.sleep(0.004)
print(done)
"""

# Ends in the middle of a capture, as a process that is killed does.
KILLED = """
start()
call("cuStreamBeginCapture_v2", out("cuStreamCreate", 1), 0)
os.kill(os.getpid(), signal.SIGKILL)
"""

# Begins more captures than there is room for, and ends none.
HOARDS = """
start()
for _ in range(4201):
    call("cuStreamBeginCapture_v2", out("cuStreamCreate", 1), 0)
say(ready=1)
wait()
"""
CAPTURES = """
context, module = start()
stream, made = out("cuStreamCreate", 1), c_uint64()
call("cuStreamBeginCapture_v2", stream, 0)
launch(out("cuModuleGetFunction", module, b"captured"), stream, times=7)
call("cuStreamEndCapture", stream, byref(made))
exec_ = out("cuGraphInstantiateWithFlags", made.value, c_uint64(0))
for _ in range(3):
    call("cuGraphLaunch", exec_, stream)
"""


def start(cgroup: Cgroup, *options: str, log: Path | None = None) -> "subprocess.Popen[str]":
    words = [WORKLOAD, "launch", "--api", "driver", *options]
    return cgroup.popen(words, env=sim_environment(log), stderr=subprocess.PIPE)


def warm(recording: Recording, cgroup: Cgroup) -> None:
    """Have the library probed before it counts."""
    for _ in range(20):
        finish(start(cgroup, "--steps", "3"))
        if recording.sql("select 1 as seen from cuda_events where op = 'launch' limit 1"):
            return
        time.sleep(0.5)
    raise AssertionError("no launch is ever seen")


def finish(process: "subprocess.Popen[str]") -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def fate(recording: Recording, cgroup: Cgroup, family: str = "cuda") -> dict[str, Any]:
    """What became of a tenant's events."""
    (row,) = recording.sql(
        "select sum(seen) as seen, sum(stored) as stored, sum(shed) as shed, sum(lost) as lost, "
        "sum(queued) as queued from losses join containers using (cgroup_id) "
        f"where family = '{family}' and cgroup_path = '/{cgroup.name}'"
    )
    return {key: int(value) for key, value in row.items()}


def counted(recording: Recording, cgroup: Cgroup) -> int:
    """Launches of a tenant by the kernel's totals."""
    (row,) = recording.sql(
        "select sum(count) as n from totals join containers using (cgroup_id) "
        f"where function = 'cuLaunchKernel' and cgroup_path = '/{cgroup.name}'"
    )
    return int(row["n"])


def rows_of(recording: Recording, cgroup: Cgroup) -> dict[str, int]:
    """Launches of a tenant that are rows, and how many they stand for."""
    (row,) = recording.sql(
        "select count(*) as rows, sum(weight) as weight from cuda_events "
        "join containers using (cgroup_id) "
        f"where op = 'launch' and cgroup_path = '/{cgroup.name}'"
    )
    return {key: int(value) for key, value in row.items()}


def notes(recording: Recording) -> dict[str, Any]:
    (row,) = recording.sql("select notes from sessions")
    found: dict[str, Any] = json.loads(row["notes"])
    return found


def test_a_flood_is_shed_and_counted_exactly(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    tenants, before = [cgroups(), cgroups()], cgroups()
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    with record(store, *SMALL_RING, "--budget", "off") as recording:
        warm(recording, before)
        processes = [
            start(tenant, "--steps", str(LAUNCHES), log=log)
            for tenant, log in zip(tenants, logs, strict=True)
        ]
        for process in processes:
            finish(process)
    for tenant, log in zip(tenants, logs, strict=True):
        launches = sum(call["op"] == "launch" for call in truth(log))
        assert launches == LAUNCHES
        assert counted(recording, tenant) == launches
        what = fate(recording, tenant)
        assert what["shed"] > 0
        assert what["queued"] == 0
        assert what["seen"] == what["stored"] + what["shed"] + what["lost"]
        kept = rows_of(recording, tenant)
        assert kept["rows"] < launches
        assert kept["weight"] == launches - what["lost"]
    assert "imbalance" not in notes(recording)


def test_a_storm_costs_its_neighbour_no_row(cgroups: Callable[[], Cgroup], store: Path) -> None:
    storm, small, before = cgroups(), cgroups(), cgroups()
    with record(store, *MIDDLE_RING, "--budget", "off") as recording:
        warm(recording, before)
        loud = start(storm, "--steps", str(ENDLESS))
        finish(start(small, "--steps", "4001", "--rate", "1000"))
        assert loud.poll() is None
        loud.terminate()
        loud.communicate(timeout=60)
    assert fate(recording, storm)["shed"] > 0
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert rows_of(recording, small) == {"rows": 4001, "weight": 4001}


def spared(recording: Recording, cgroup: Cgroup, family: str) -> int:
    """Rows of a tenant that lost none of this family, each of them standing for itself."""
    what = fate(recording, cgroup, family)
    assert what == {"seen": what["seen"], "stored": what["seen"], "shed": 0, "lost": 0, "queued": 0}
    (rows,) = recording.sql(
        f"select count(*) as rows, sum(weight)::bigint as weight from {family}_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}'"
    )
    assert rows == {"rows": what["seen"], "weight": what["seen"]}
    return what["seen"]


def test_a_storm_of_switches_costs_its_neighbour_no_io_or_traffic(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, small = cgroups(), cgroups()
    switches, file = tmp_path / "switches", Path(f"/var/tmp/cotenant-test-{os.getpid()}")
    subprocess.run(["gcc", "-O2", "-o", switches, SWITCHES], check=True)
    try:
        file.write_bytes(os.urandom(READS * 4096))
        os.sync()
        with record(
            store,
            *MIDDLE_RING,
            "--events",
            "host,io,net",
            "--host-rows",
            "all",
            "--net-rows",
            "all",
        ) as recording:
            loud = storm.popen([switches, 0, 120, 0])
            quiet = python(small, AT_LEISURE.format(file=str(file), reads=READS))
            assert ended(quiet).strip() == str(READS)
            assert loud.poll() is None
            (storm.path / "cgroup.kill").write_text("1")
            loud.communicate(timeout=60)
    finally:
        file.unlink(missing_ok=True)
    flood = fate(recording, storm, "host")
    assert flood["shed"] > 0
    assert flood["queued"] == 0
    assert flood["seen"] == flood["stored"] + flood["shed"] + flood["lost"]
    assert spared(recording, small, "net") == READS
    assert spared(recording, small, "io") > 0
    (kept,) = recording.sql(
        "select count(pid) as rows, sum(weight)::bigint as weight from host_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{storm.name}'"
    )
    assert kept["rows"] == flood["stored"] < kept["weight"]
    assert kept["weight"] == flood["stored"] + flood["shed"]
    assert "imbalance" not in notes(recording)


def test_a_thread_over_budget_is_counted_without_rows(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    storm, small, before = cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "1%") as recording:
        warm(recording, before)
        loud = start(storm, "--steps", str(MANY))
        finish(start(small, "--steps", "503", "--rate", "500"))
        finish(loud)
    assert counted(recording, storm) == MANY
    assert 0 < rows_of(recording, storm)["rows"] < MANY
    assert rows_of(recording, small) == {"rows": 503, "weight": 503}
    what = fate(recording, storm)
    assert what["queued"] == 0
    assert what["seen"] == what["stored"] + what["shed"] + what["lost"]
    said = notes(recording)
    assert said["budget_counted_only"]["cuLaunchKernel"] > 0
    assert sum(said["budget_counted_only"].values()) == what["shed"]
    reasons = recording.sql(
        "select distinct reason from losses join containers using (cgroup_id) "
        f"where cgroup_path = '/{storm.name}' and shed > 0"
    )
    assert reasons == [{"reason": "over budget"}]
    assert "imbalance" not in said


def test_whoever_hoards_captures_keeps_nobody_from_theirs_and_from_their_budget(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    hoard, other, storm, before = (cgroups() for _ in range(4))
    with record(store, "--budget", "1%") as recording:
        warm(recording, before)
        hoards = Script(hoard, HOARDS)
        hoards.heard()
        Script(other, CAPTURES).end()
        finish(start(storm, "--steps", str(LAUNCHES)))
        hoards.go_on()
        hoards.end()
    rows = recording.sql(
        "select op, count(*)::bigint as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{other.name}' and op like '%launch' group by op"
    )
    assert rows == [{"op": "graph_launch", "n": 3}]
    assert counted(recording, storm) == LAUNCHES
    assert notes(recording)["budget_counted_only"]["cuLaunchKernel"] > 0


def test_rows_stand_for_what_was_over_budget_at_both_layers(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, before, paused, go_on = cgroups(), cgroups(), tmp_path / "paused", tmp_path / "go on"
    words = ["taskset", "-c", "0", WORKLOAD, "launch", "--api", "runtime12", "--steps"]
    with record(store, "--budget", "1%", "--layers", "both") as recording:
        warm(recording, before)
        finish(before.popen([*words, "3"], env=sim_environment(), stderr=subprocess.PIPE))
        recording.wait_probed("libcudart.so.12")
        Script(before, KILLED).end(-signal.SIGKILL)
        loud = storm.popen(
            [*words, LAUNCHES, "--pause-after", LAUNCHES - 7, "--resume-on", go_on,
             "--ready", paused], env=sim_environment(), stderr=subprocess.PIPE,
        )  # fmt: skip
        while not paused.exists():
            assert loud.poll() is None
            time.sleep(0.1)
        time.sleep(1.1)  # A budget is for a second.
        go_on.touch()
        finish(loud)
    assert counted(recording, storm) == LAUNCHES
    kept = rows_of(recording, storm)
    assert kept["rows"] < LAUNCHES == kept["weight"]
