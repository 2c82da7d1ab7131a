"""More events than the ring takes: rows are shed by tenant, counts stay exact, all adds up."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment, truth

WORKLOAD = SIM / "workload"
SMALL_RING = ("--ring-bytes", "65536")
# Its part above the mark is more than the small tenant sends while the reader is kept waiting.
MIDDLE_RING = ("--ring-bytes", str(1 << 20))
LAUNCHES = 60_013
MANY = 400_009


def start(cgroup: Cgroup, *options: str, log: Path | None = None) -> "subprocess.Popen[str]":
    words = [WORKLOAD, "launch", "--api", "driver", *options]
    return cgroup.popen(words, env=sim_environment(log), stderr=subprocess.PIPE)


def warm(recording: Recording, cgroup: Cgroup) -> None:
    """Have the library probed before it counts."""
    for _ in range(20):
        finish(start(cgroup, "--steps", "3"))
        if recording.sql("select 1 as seen from cuda_events where op = 'launch' limit 1"):
            return
    raise AssertionError("no launch is ever seen")


def finish(process: "subprocess.Popen[str]") -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors


def fate(recording: Recording, cgroup: Cgroup) -> dict[str, Any]:
    """What became of a tenant's CUDA events."""
    (row,) = recording.sql(
        "select sum(seen) as seen, sum(stored) as stored, sum(shed) as shed, sum(lost) as lost, "
        "sum(queued) as queued from losses join containers using (cgroup_id) "
        f"where family = 'cuda' and cgroup_path = '/{cgroup.name}'"
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
        # All but those that were shed after the last row, on each CPU.
        assert launches - what["lost"] - what["shed"] < kept["weight"] <= launches
    assert "imbalance" not in notes(recording)


def test_a_storm_costs_its_neighbour_no_row(cgroups: Callable[[], Cgroup], store: Path) -> None:
    storm, small, before = cgroups(), cgroups(), cgroups()
    with record(store, *MIDDLE_RING, "--budget", "off") as recording:
        warm(recording, before)
        loud = start(storm, "--steps", str(MANY))
        finish(start(small, "--steps", "4001", "--rate", "1000"))
        loud.terminate()
        loud.communicate(timeout=60)
    assert fate(recording, storm)["shed"] > 0
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert rows_of(recording, small) == {"rows": 4001, "weight": 4001}


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
    assert "imbalance" not in said
